-- job_enqueue: store one job.
-- params: fn text, params json, queue text, label text, priority int4?, delay_ms int8?,
--   run_at text, expires_ms int8?, expires_at text, key text, on_duplicate text,
--   max_attempts int4?, timeout_ms int8?, backoff_floor_ms int8?, backoff_ceiling_ms int8?,
--   backoff_exponent float8?, concurrency_key text, concurrency int4?, tags json,
--   traceparent text, after json, flow int8?, key_until_ms int8?
-- returns: id int8?
-- NULL stands for the default. Parameters run_at and expires_at are times as text. Parameter after
--   is as option "after" of deferred.defer(). Parameter flow is a flow, or a job of that flow.
--   Parameter key_until_ms: 0: until the start.
-- Rows: id, of the job or of the role's one that has the key already; NULL: dropped, the queue is
--   full.
-- Locks: rows it adds. With a key also the hot row that has the key. For the first job under a
--   limit also the row of its queue. The row of the flow, which those who add to it share.
-- Index: __deferred_hot_key, for a job with a key; __deferred_tags, for one with tags.
select deferred.__enqueue($1::text, $2::json, $3::text, $4::text, $5::integer, $6::bigint,
    deferred.__moment('run_at', $7::text), $8::bigint, deferred.__moment('expires_at', $9::text),
    $10::text, $11::text, $12::integer, $13::bigint, $14::bigint, $15::bigint,
    $16::double precision, $17::text, $18::integer, $19::json, $20::text, $21::json,
    $22::bigint, $23::bigint) as id
