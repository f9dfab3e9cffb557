-- web_dead: jobs that are dead now, by function and queue; looks at the newest $1 ends without
-- success.
-- params: ends_max int4
-- returns: fn text, queue text, dead int8, first_s int8, last_s int8, job_id int8, outcome text,
--   more bool
-- Rows: one for each function and queue, with the newest job. more: there may be more
-- Locks: none. Index: __deferred_log_ended; then for each primary key of __deferred_hot,
--   __deferred_log_job and primary keys of the partitions of __deferred
with newest as materialized (
    select l.job_id, l.finished_at, l.outcome from deferred.__deferred_log l
    where l.final and l.outcome <> 'ok' order by l.finished_at desc limit $1::int4),
dead as (
    select n.job_id, n.finished_at, n.outcome from newest n
    where deferred.state(n.outcome) = 'dead'
      and (select h.id from deferred.__deferred_hot h where h.id = n.job_id) is null
      and (select y.job_id from deferred.__deferred_log y
           where y.job_id = n.job_id and y.final and y.finished_at > n.finished_at limit 1) is null)
select d.fn, d.queue, count(*) as dead, deferred.__age_s(min(n.finished_at)) as first_s,
       deferred.__age_s(max(n.finished_at)) as last_s,
       (array_agg(n.job_id order by n.finished_at desc))[1] as job_id,
       (array_agg(n.outcome order by n.finished_at desc))[1] as outcome,
       (select count(*) = $1 from newest) as more
from dead n cross join lateral (select x.fn, x.queue from deferred.__deferred x
                                where x.id = n.job_id offset 0) d
group by d.fn, d.queue
order by count(*) desc, d.fn, d.queue limit 500
