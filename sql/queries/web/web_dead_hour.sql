-- web_dead_hour: jobs that died in the last hour and are dead still: those that were retried since
-- are not. Looks at the newest $1 ends without success.
-- params: ends_max int8
-- returns: dead int8, more bool
-- Locks: none. Index: __deferred_log_ended; then for each __deferred_hot_pkey and
--   __deferred_log_job
with newest as materialized (
    select l.job_id, l.finished_at, l.outcome from deferred.__deferred_log l
    where l.final and l.outcome <> 'ok' and l.finished_at > now() - interval '1 hour'
    order by l.finished_at desc limit $1::int8 + 1)
-- Subqueries that have one value are asked row by row, and are not made a join that reads the whole
-- log.
select (select count(*) from newest n
        where deferred.state(n.outcome) = 'dead'
          and (select h.id from deferred.__deferred_hot h where h.id = n.job_id) is null
          and (select y.job_id from deferred.__deferred_log y
               where y.job_id = n.job_id and y.final and y.finished_at > n.finished_at
               limit 1) is null) as dead,
       (select count(*) > $1 from newest) as more
