-- job_enqueue_after: store one job that waits for others, or is added to a flow.
-- params: fn text, params json, queue text, label text, priority int4?, delay_ms int8?,
--   run_at text, expires_ms int8?, expires_at text, key text, on_duplicate text,
--   max_attempts int4?, timeout_ms int8?, backoff_floor_ms int8?, backoff_ceiling_ms int8?,
--   backoff_exponent float8?, concurrency_key text, concurrency int4?, tags json, after json,
--   traceparent text, flow int8?
-- returns: as job_enqueue
-- $1 to $19 as of job_enqueue.sql; $20 the jobs it waits for, as option "after" of deferred.defer()
--   has them (NULL: none), $21 traceparent, $22 flow it is added to, or a job of that (NULL: none).
-- rows: id, of the job or of the role's one that has the key already, which waits for nobody; NULL:
--   dropped, the queue is full.
-- Locks: as job_enqueue.sql; none on the jobs it waits for; the row of the flow, which those who
--   add to it share. Index: primary keys of __deferred and __deferred_hot, __deferred_log_job.
select deferred.__enqueue_after($1::text, $2::json, $3::text, $4::text, $5::integer, $6::bigint,
    deferred.__moment('run_at', $7::text), $8::bigint, deferred.__moment('expires_at', $9::text),
    $10::text, $11::text, $12::integer, $13::bigint, $14::bigint, $15::bigint,
    $16::double precision, $17::text, $18::integer, $19::json, $20::json, $21::text,
    $22::int8) as id
