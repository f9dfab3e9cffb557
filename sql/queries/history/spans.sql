-- spans: attempts that ended in a time and whose jobs have a trace context, without errors.
-- params: from timestamptz, until timestamptz, rows_max int8, unsampled text
-- returns: job int8, attempt int4, queue text?, fn text?, traceparent text, outcome text,
--   final bool, started_at timestamptz, finished_at timestamptz, wait_us int8?, worker int8,
--   error text?
-- $1 to $2: when they ended. $3 rows of the log to look at. $4 true: also those that the producer
--   did not sample.
-- Rows: one for each attempt. error: at most 2,048 characters. The first row has NULL for a queue;
--   job is the number of rows that were looked at.
-- Locks: none. Index: __deferred_log_finished, of which pages are read until there are rows enough;
--   primary key of __deferred for each of them.
with ended as materialized (
    select l.job_id, l.attempt, l.outcome, l.final,
           coalesce(l.started_at, l.finished_at) as started_at, l.finished_at,
           deferred.__measure(l.wait_us) as wait_us, l.worker, null::text as error
    from deferred.__deferred_log l
    where l.finished_at >= $1::timestamptz and l.finished_at < $2::timestamptz
    limit $3::int8)
select count(*) as job, null::int4 as attempt, null::text as queue, null::text as fn,
       null::text as traceparent, null::text as outcome, null::bool as final,
       null::timestamptz as started_at, null::timestamptz as finished_at, null::int8 as wait_us,
       null::int8 as worker, null::text as error from ended
union all
(select s.job_id, s.attempt, d.queue, d.fn, d.traceparent, s.outcome, s.final,
 least(s.started_at, s.finished_at), s.finished_at, s.wait_us, s.worker, s.error
 from ended s
 cross join lateral (select x.queue, x.fn, x.traceparent from deferred.__deferred x
                     where x.id = s.job_id offset 0) d
 where s.attempt > 0 and d.traceparent is not null
   and ($4::text::bool or d.traceparent ~ '[13579bdf]$'))
