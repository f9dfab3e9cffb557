-- admin_status_dead: jobs that are dead now: those that were retried since are not. Looks at the
-- newest $1 ends without success, and for the oldest dead job at the oldest $1.
-- params: ends_max int8
-- returns: dead int8, more bool, last_hour int8, last_hour_more bool, oldest_s int8?, json text
-- Rows: one row. more, last_hour_more: there may be more than were looked at
-- Locks: none. Index: __deferred_log_ended; then for each __deferred_hot_pkey and
--   __deferred_log_job
with newest as materialized (
    select l.job_id, l.finished_at, l.outcome from deferred.__deferred_log l
    where l.final and l.outcome <> 'ok' order by l.finished_at desc limit $1::int8 + 1),
oldest as materialized (
    select l.job_id, l.finished_at, l.outcome from deferred.__deferred_log l
    where l.final and l.outcome <> 'ok' order by l.finished_at limit $1),
-- Subqueries that have one value are asked row by row, and are not made a join that reads the whole
-- log.
dead as (
    select n.finished_at from newest n
    where deferred.state(n.outcome) = 'dead'
      and (select h.id from deferred.__deferred_hot h where h.id = n.job_id) is null
      and (select y.job_id from deferred.__deferred_log y
           where y.job_id = n.job_id and y.final and y.finished_at > n.finished_at
           limit 1) is null),
first as (
    select o.finished_at from oldest o
    where deferred.state(o.outcome) = 'dead'
      and (select h.id from deferred.__deferred_hot h where h.id = o.job_id) is null
      and (select y.job_id from deferred.__deferred_log y
           where y.job_id = o.job_id and y.final and y.finished_at > o.finished_at limit 1) is null
    order by o.finished_at limit 1),
figures as (
    select (select count(*) from dead) as dead, s.more,
           (select count(*) from dead d
            where d.finished_at > now() - interval '1 hour') as last_hour,
           s.more and s.since > now() - interval '1 hour' as last_hour_more,
           deferred.__age_s(coalesce((select f.finished_at from first f),
                                   (select min(d.finished_at) from dead d))) as oldest_s
    from (select count(*) > $1 as more, min(n.finished_at) as since from newest n) s)
select f.dead, f.more, f.last_hour, coalesce(f.last_hour_more, false) as last_hour_more, f.oldest_s,
       row_to_json(f)::text as json
from figures f
