-- True if a purge leaves this final attempt of a job. A dead job is work that was not done. A purge
-- leaves the attempt by which a job is dead, and so the job. until: dead jobs that ended before
-- then go. NULL: none goes. Only the last attempt of a job counts, since a job that was retried may
-- have succeeded.
create or replace function deferred.__dead_stays(
    job bigint, attempt integer, outcome text, finished_at timestamptz, until timestamptz)
returns boolean
language sql stable set search_path = pg_catalog, pg_temp
as $$
    select deferred.state(outcome) = 'dead' and (finished_at < until) is not true
        and not exists (select from deferred.__deferred_log l
                        where l.job_id = job and (l.finished_at, l.attempt) > ($4, $2))
$$;
