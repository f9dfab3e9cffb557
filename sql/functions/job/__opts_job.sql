-- The options of a rule, read and checked, as a row of __deferred. Options that are missing are
-- NULL. Queue and priority are arguments of the rule, and the key is a column of each of its rows.
-- The queue limits how many jobs run. A job of a rule does not wait for other jobs.
create or replace function deferred.__opts_job(opts json) returns deferred.__deferred
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    c_known constant text[] := '{label,delay,expires,key_until,max_attempts,timeout,backoff_floor,
                                 backoff_ceiling,backoff_exponent,tags}';
    v         deferred.__deferred;
    v_unknown text := (select o.key from json_object_keys(opts) as o(key)
                       where o.key <> all (c_known) limit 1);
begin
    if v_unknown is not null then
        raise exception using errcode = '22023',
            message = format('option ''%s'' is unknown', left(v_unknown, 200)),
            hint = 'known options: ' || array_to_string(c_known, ', ');
    end if;
    v.created_at := clock_timestamp();
    v.run_at := v.created_at
        + nullif(deferred.__ms('delay', opts->>'delay'), 0) * interval '1 millisecond';
    v.expires_at := v.created_at
        + nullif(deferred.__ms('expires', opts->>'expires'), 0) * interval '1 millisecond';
    v.label := opts->>'label';
    v.tags := deferred.__tags(opts->'tags');
    v.key_until_ms := deferred.__key_until(opts->>'key_until');
    v.max_attempts := deferred.__number('max_attempts', opts->>'max_attempts');
    v.timeout_ms := deferred.__ms('timeout', opts->>'timeout');
    v.backoff_floor_ms := deferred.__ms('backoff_floor', opts->>'backoff_floor');
    v.backoff_ceiling_ms := deferred.__ms('backoff_ceiling', opts->>'backoff_ceiling');
    v.backoff_exponent := deferred.__number('backoff_exponent', opts->>'backoff_exponent');
    perform deferred.__opts_refuse(deferred.__opts_bad(
        label => v.label, max_attempts => v.max_attempts, timeout_ms => v.timeout_ms,
        backoff_floor_ms => v.backoff_floor_ms, backoff_ceiling_ms => v.backoff_ceiling_ms,
        backoff_exponent => v.backoff_exponent));
    return v;
end
$$;
