-- Notes that a run failed as a whole, which has rolled back what it did.
create or replace function deferred.__rule_failed(name text, error text) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_id bigint := (deferred.__rule_get($1, true)).id;
begin
    update deferred.__deferred_rule x
    set last_run_at = clock_timestamp(), last_run_ms = null, last_run_by = session_user,
        last_queued = null, last_skipped = null,
        last_failed = null, last_error = left($2, 2000)
    where x.id = v_id;
end
$$;
grant execute on function deferred.__rule_failed to deferred_producer;
