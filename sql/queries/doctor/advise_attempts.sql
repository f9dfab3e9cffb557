-- advise_attempts: attempts of functions that ended in a time, of all queues or of one, for a
-- replay.
-- params: from timestamptz, until timestamptz, queue text, rows_max int8
-- returns: started_at timestamptz?, wait_us int8, run_us int8, queue text?, attempt int4,
--   cut_off bool, fn text
-- $1 to $2: when they ended. $3 NULL: all. $4 rows of the log to look at
-- Rows: one for each attempt. The first row has NULL for a queue; wait is the number of rows that
--   were looked at.
-- Locks: none. Index: __deferred_log_finished, of which pages are read until there are rows enough;
--   primary key of __deferred for each of them
with ended as materialized (
    select l.job_id, l.attempt, l.outcome, l.started_at, deferred.__measure(l.wait_us) as wait_us,
           deferred.__measure(l.run_us) as run_us
    from deferred.__deferred_log l
    where l.finished_at >= $1::timestamptz and l.finished_at < $2::timestamptz
    limit $4::int8)
select null::timestamptz as started_at, count(*) as wait_us, null::int8 as run_us,
       null::text as queue, null::int4 as attempt, null::bool as cut_off, null::text as fn
           from ended
union all
(select s.started_at, s.wait_us, s.run_us, d.queue, s.attempt,
 s.outcome in ('superseded', 'interrupted', 'lost'), d.fn
 from ended s
 cross join lateral (select x.queue, x.fn from deferred.__deferred x
                     where x.id = s.job_id offset 0) d
 where s.started_at is not null and s.wait_us >= 0 and s.run_us >= 0 and d.fn is not null
   and ($3::text is null or d.queue = $3))
