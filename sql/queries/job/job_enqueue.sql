-- job_enqueue: store one job.
-- params: fn text, params json, queue text, label text, priority int4?, delay_ms int8?,
--   run_at text, expires_ms int8?, expires_at text, key text, on_duplicate text,
--   max_attempts int4?, timeout_ms int8?, backoff_floor_ms int8?, backoff_ceiling_ms int8?,
--   backoff_exponent float8?, concurrency_key text, concurrency int4?, tags json, traceparent text
-- returns: id int8?
-- $1 fn text, $2 params json, $3 queue text (NULL: default), $4 label text, $5 priority, $6 delay
--   (milliseconds), $7 run_at text (timestamptz as written), $8 expires (milliseconds), $9
--   expires_at text (timestamptz as written), $10 key text, $11 on_duplicate text (skip, error,
--   replace), $12 max_attempts, $13 timeout, $14 back-off floor, $15 back-off ceiling
--   (milliseconds), $16 back-off exponent, $17 concurrency key text, $18 concurrency, $19 tags
--   json, $20 traceparent text. NULL: default.
-- rows: id, of the job or of the role's one that has the key already; NULL: dropped, the queue is
--   full.
-- Locks: rows it adds; with a key also the hot row that has the key; the first job under a limit,
--   the row of its queue.
-- Index: __deferred_hot_key, for a job with a key; __deferred_tags, for one with tags.
select deferred.__enqueue($1::text, $2::json, $3::text, $4::text, $5::integer, $6::bigint,
    deferred.__moment('run_at', $7::text), $8::bigint, deferred.__moment('expires_at', $9::text),
    $10::text, $11::text, $12::integer, $13::bigint, $14::bigint, $15::bigint,
    $16::double precision, $17::text, $18::integer, $19::json, $20::text) as id
