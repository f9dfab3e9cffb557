-- Store one job.
--
-- $1 fn text, $2 params json, $3 queue text (NULL: default), $4 label text, $5 priority int4,
-- $6 delay int8 (milliseconds), $7 run_at text (timestamptz as written), $8 expires int8 (milliseconds),
-- $9 expires_at text (timestamptz as written), $10 key text, $11 on_duplicate text (skip, error, replace),
-- $12 max_attempts int4, $13 timeout int8, $14 back-off floor int8, $15 back-off ceiling int8 (milliseconds),
-- $16 back-off exponent float8, $17 concurrency key text, $18 concurrency int4, $19 tags json, $20 traceparent text. NULL: default.
-- Returns: id int8, of the job or of the role's one that has the key already; NULL: dropped, the queue is full.
-- Locks: rows it adds; with a key also the hot row that has the key; the first job under a limit, the row of its queue.
-- Index: __deferred_hot_key, for a job with a key; __deferred_tags, for one with tags.
select deferred.__enqueue($1::text, $2::json, $3::text, $4::text, $5::integer, $6::bigint, $7::text::timestamptz,
    $8::bigint, $9::text::timestamptz, $10::text, $11::text, $12::integer, $13::bigint, $14::bigint, $15::bigint,
    $16::double precision, $17::text, $18::integer, $19::json, $20::text)
