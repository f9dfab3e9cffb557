-- schedule_trouble: schedules whose jobs do not come, or do not end as they should.
-- params: queue text
-- returns: name text, what text, why text?, since_s int8?, job int8?
-- $1 NULL: all
-- Rows: at most 100. The last tick could not be deferred (failed), the last job is dead, or the
--   schedule is paused; in this order, oldest first
-- Locks: none. Index: primary keys of __deferred and __deferred_hot, __deferred_log_job, for the
--   last job of the 1,000 schedules that had a tick last; all of __deferred_schedule
with last as materialized (
    select s.name, s.paused, s.last_what, s.last_error, s.last_at, s.last_job
    from deferred.__schedules() s
    where (s.paused or s.last_at is not null) and ($1::text is null or s.queue = $1)
    order by (s.last_what = 'failed') is true desc, s.last_at desc nulls last limit 1000),
known as materialized (
    select l.*, case when l.paused then 'paused' when l.last_what = 'failed' then 'failed'
                     when (select j.state from deferred.job j where j.id = l.last_job) = 'dead'
                         then 'dead' end as what
    from last l)
select k.name, k.what, case when k.what = 'failed' then k.last_error end as why,
       deferred.__age_s(k.last_at) as since_s,
       case when k.what = 'dead' then k.last_job end as job
from known k
where k.what is not null
order by array_position(array['failed', 'dead', 'paused'], k.what), k.last_at, k.name
limit 100
