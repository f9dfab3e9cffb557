-- Stores a schedule that an operator wrote on a page, as deferred.__act() does other actions. The
-- version is what the form showed of it, '' for a new one. The form does not replace a schedule
-- that exists, and does not undo what somebody else changed meanwhile. Only members of the owner
-- may change it. Tags, which the form lacks, are kept. Returns why it was refused, or NULL.
create or replace function deferred.__act_schedule_set(schedule text, version text, rule text,
    fn text, params text, opts json, who text, address text) returns text
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    s         deferred.__deferred_schedule;
    v_new     boolean := coalesce($2, '') = '';
    v_params  json;
    v_opts    jsonb := $6;
    v_refused text;
    v_hint    text;
    v_kept    text;
begin
    perform deferred.__act_allowed();
    if octet_length($6::text) > 8000 then
        raise exception using errcode = '22003', message = 'options are longer than 8,000 bytes',
            hint = 'shorten the label';
    end if;
    select p.value, p.refused into v_params, v_refused from deferred.__act_params($5) p;
    if v_refused is not null then
        v_kept := 'params are not valid JSON';
    else
        begin
            if not v_new then
                s := deferred.__schedule_get($1, true);
                if extract(epoch from s.changed_at)::text <> $2 then
                    raise exception using errcode = '55000',
                        message = format('schedule ''%s'' was changed meanwhile', left($1, 200)),
                        hint = 'load its form again';
                end if;
                v_opts := v_opts || jsonb_strip_nulls(jsonb_build_object('tags', s.opts->'tags'));
            end if;
            if deferred.__schedule_set($1, $3, $4, v_params, v_opts::json, null) <> 'added'
               and v_new then
                raise exception using errcode = '23505',
                    message = format('schedule ''%s'' exists already', left($1, 200)),
                    hint = 'change it on its page, or choose another name';
            end if;
        exception
        when data_exception or unique_violation or insufficient_privilege or no_data_found
                or configuration_limit_exceeded or program_limit_exceeded
                or object_not_in_prerequisite_state or lock_not_available then
            get stacked diagnostics v_refused = message_text, v_hint = pg_exception_hint;
            v_refused := v_refused || coalesce(' (' || nullif(v_hint, '') || ')', '');
        end;
    end if;
    insert into deferred.__deferred_action (who, role, login, address, verb, fn, schedule,
        settings, refused)
    values (left($7, 200), deferred.__actor(), session_user, left($8, 200), 'set', left($4, 127),
        left($1, 88), (jsonb_build_object('rule', left($3, 1000)) || $6::jsonb)::json,
        left(coalesce(v_kept, v_refused), 1000));
    return v_refused;
end
$$;
grant execute on function deferred.__act_schedule_set to deferred_operator;
