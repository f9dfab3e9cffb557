-- Defers a job that an operator wrote on a page, as deferred.__act() does other actions. The params
-- are as they were typed, and opts as deferred.defer() takes them. A key that another job has is
-- refused, unless on_duplicate says otherwise. The column refused may quote the params, so the row
-- that is written says only that they are wrong.
create or replace function deferred.__act_defer(fn text, params text, opts json, who text,
                                                address text, out job bigint, out refused text)
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
declare
    v_params  json;
    v_hint    text;
    v_kept    text;
begin
    perform deferred.__act_allowed();
    if octet_length(opts::text) > 8000 then
        raise exception using errcode = '22003',
            message = 'options are longer than 8,000 bytes',
            hint = 'shorten the label, the tags or the list of jobs to wait for';
    end if;
    select p.value, p.refused into v_params, refused from deferred.__act_params(params) p;
    if refused is not null then v_kept := 'params are not valid JSON'; end if;
    if refused is null then
        begin
            job := deferred.defer(coalesce(fn, ''), v_params,
                                  ((case when opts::jsonb ? 'key'
                                         then '{"on_duplicate": "error"}' else '{}' end)::jsonb
                                   || opts::jsonb)::json);
            if job is null then refused := format('queue ''%s'' is full and drops new jobs',
                                                  coalesce(opts->>'queue', 'default')); end if;
        exception when data_exception or unique_violation or insufficient_privilege
            or configuration_limit_exceeded or program_limit_exceeded
                or object_not_in_prerequisite_state or object_in_use then
            get stacked diagnostics refused = message_text, v_hint = pg_exception_hint;
            refused := refused || coalesce(' (' || nullif(v_hint, '') || ')', '');
        end;
    end if;
    insert into deferred.__deferred_action (who, role, login, address, verb, job_id, fn, settings,
                                            refused)
    values (left(who, 200), deferred.__actor(), session_user, left(address, 200), 'defer', job,
            left(fn, 127), opts, left(coalesce(v_kept, refused), 1000));
end
$$;
grant execute on function deferred.__act_defer to deferred_operator;
