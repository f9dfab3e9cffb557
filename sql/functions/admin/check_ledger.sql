create or replace function deferred.check_ledger()
returns table (invariant text, job_id bigint, detail text)
-- Compiling its parts takes half a second; a small history is read in no time.
language sql stable set jit = off
as $$
    select * from deferred.__ledger_jobs() union all
    select * from deferred.__ledger_attempts() union all
    select * from deferred.__ledger_lanes() union all
    select * from deferred.__ledger_flows() union all
    select * from deferred.__ledger_events()
$$;
comment on function deferred.check_ledger() is
    'violations of the promises kept between the tables: no rows when all is well. Reads '
    'everything; for tests and doubts';
grant execute on function deferred.check_ledger() to deferred_worker;
