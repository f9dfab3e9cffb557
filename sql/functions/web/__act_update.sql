-- Changes a job as an operator wrote on a page, as deferred.__act() does other actions. The params
-- are as they were typed; NULL: as they are. The other changes are as deferred.update() takes them.
-- The answer, why it was refused, may quote the params, so the row that is written says only that
-- they are wrong. NULL: it was done.
create or replace function deferred.__act_update(job bigint, params text, changes json, who text,
                                                 address text) returns text
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
declare
    v_params  json;
    v_refused text;
    v_kept    text;
    v_hint    text;
    v_was     text;
begin
    perform deferred.__act_allowed();
    if octet_length(changes::text) > 8000 then
        raise exception using errcode = '22003', message = 'changes are longer than 8,000 bytes',
            hint = 'shorten the label';
    end if;
    if params is not null then
        select p.value, p.refused into v_params, v_refused from deferred.__act_params(params) p;
        changes := changes::jsonb || '{"params": null}';
    end if;
    if v_refused is not null then
        v_kept := 'params are not valid JSON';
    else
        begin
            v_was := deferred.__patience('5 seconds');
            if not deferred.__update(job, deferred.__update_check(changes), v_params) then
                v_refused := format('no job %s', job);
            end if;
            perform set_config('lock_timeout', v_was, true);
        exception
        when lock_not_available then
            v_refused := format('job %s is locked by %s', job,
                deferred.__holder('deferred.__deferred_hot',
                                  (select h.xmax from deferred.__deferred_hot h where h.id = job)));
        when data_exception or object_in_use or unique_violation or insufficient_privilege
            or configuration_limit_exceeded or program_limit_exceeded then
            get stacked diagnostics v_refused = message_text, v_hint = pg_exception_hint;
            v_refused := v_refused || coalesce(' (' || nullif(v_hint, '') || ')', '');
        end;
    end if;
    insert into deferred.__deferred_action (who, role, login, address, verb, job_id, settings,
                                            refused)
    values (left(who, 200), deferred.__actor(), session_user, left(address, 200), 'update', job,
            deferred.__update_noted(changes), left(coalesce(v_kept, v_refused), 1000));
    return v_refused;
end
$$;
grant execute on function deferred.__act_update to deferred_operator;
