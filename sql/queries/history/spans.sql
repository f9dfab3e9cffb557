-- spans: attempts that ended in a time and whose jobs have a trace context, without errors.
-- $1 from, $2 before that (timestamptz): when they ended. $3 rows of the log to look at, at most (int8). $4 those too that the producer did not sample (bool as text)
-- returns a row for each attempt: job (int8), its number (int4), queue, function, trace context (text), outcome (text), it was the last (bool), start, end (timestamptz),
--   waited before, microseconds (int8), worker (int8), error, 2,048 characters at most (text; NULL: there is none, or it is not asked for);
--   before them one with NULL for a queue: the rows that were looked at, as job
-- locks: none. Index: __deferred_log_finished, of which pages are read until there are rows enough; primary key of __deferred for each of them
with ended as materialized (
    select l.job_id, l.attempt, l.outcome, l.final, coalesce(l.started_at, l.finished_at) as started_at, l.finished_at, deferred.__measure(l.wait_us) as wait_us, l.worker, null::text as error
    from deferred.__deferred_log l
    where l.finished_at >= $1::timestamptz and l.finished_at < $2::timestamptz
    limit $3::int8)
select count(*), null::int4, null::text, null::text, null::text, null::text, null::bool, null::timestamptz, null::timestamptz, null::int8, null::int8, null::text from ended
union all
(select s.job_id, s.attempt, d.queue, d.fn, d.traceparent, s.outcome, s.final, least(s.started_at, s.finished_at), s.finished_at, s.wait_us, s.worker, s.error
 from ended s
 cross join lateral (select x.queue, x.fn, x.traceparent from deferred.__deferred x where x.id = s.job_id offset 0) d
 where s.attempt > 0 and d.traceparent is not null and ($4::text::bool or d.traceparent ~ '[13579bdf]$'))
