-- Notes a run of a rule, and removes the hot rows of jobs that did not get their keys. If keys is
-- true, each job took the row of its key. If others began to use such rows while the rule ran, the
-- keys of its jobs may be held. Then the run is rolled back.
create or replace function deferred.__rule_ended(r deferred.__deferred_rule, begun timestamptz,
    queued bigint, skipped bigint, failed bigint, keys boolean, without_key bigint[]) returns void
language plpgsql set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
begin
    delete from deferred.__deferred_hot h where h.id = any (without_key);
    if not keys and pg_relation_size('deferred.__deferred_key'::regclass) > 0 then
        raise exception using errcode = '40001',
            message = format('rule ''%s'': jobs with option ''key_until'' were deferred for the '
                             'first time while the rule ran', r.name),
            hint = 'run the rule again';
    end if;
    update deferred.__deferred_rule x
    set last_run_at = begun,
        last_run_ms = extract(epoch from clock_timestamp() - begun) * 1000,
        last_run_by = session_user, last_queued = queued, last_skipped = skipped,
        last_failed = failed, last_error = null
    where x.id = r.id;
end
$$;
comment on function deferred.__rule_ended is 'part of deferred.__rule_run(): what follows the jobs';
