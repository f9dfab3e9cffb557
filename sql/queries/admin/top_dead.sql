-- top_dead: jobs that are dead now, the newest first; looks at the newest 1,000 ends without success.
-- $1 queue (text); NULL: all   $2 jobs (int8)
-- returns id (int8), function, queue (text), seconds since it died (int8), attempts (int4), outcome of the last one (text)
-- locks: none. Index: __deferred_log_ended; then for each primary key of __deferred_hot, __deferred_log_job and primary keys of the partitions of __deferred
with newest as materialized (
    select l.job_id, l.attempt, l.outcome, l.finished_at from deferred.__deferred_log l
    where l.final and l.outcome <> 'ok' order by l.finished_at desc limit 1000)
select n.job_id, d.fn, d.queue, deferred.__age_s(n.finished_at), n.attempt, n.outcome
from newest n
cross join lateral (select x.fn, x.queue from deferred.__deferred x where x.id = n.job_id offset 0) d
where deferred.state(n.outcome) = 'dead' and d.fn is not null and ($1::text is null or d.queue = $1)
  and (select h.id from deferred.__deferred_hot h where h.id = n.job_id) is null
  and (select y.job_id from deferred.__deferred_log y where y.job_id = n.job_id and y.final and y.finished_at > n.finished_at limit 1) is null
order by n.finished_at desc, n.job_id desc
limit $2::int8
