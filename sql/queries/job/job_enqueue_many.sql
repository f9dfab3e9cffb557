-- job_enqueue_many: store many jobs.
-- params: fns text[], params json[], queues text[], labels text[], priorities int4[],
--   delay_ms int8[], run_at text[], expires_ms int8[], expires_at text[], keys text[],
--   on_duplicate text[], max_attempts int4[], timeout_ms int8[], backoff_floor_ms int8[],
--   backoff_ceiling_ms int8[], backoff_exponent float8[], concurrency_keys text[],
--   concurrency int4[], tags json[], traceparents text[], flow int8?,
--   key_until_ms int8[]
-- returns: as job_enqueue
-- $1..$20 as in job_enqueue.sql, each an array; element i of all of them is job i. An array that is
--   NULL or shorter stands for NULLs. $21 the flow they are added to, or a job of that (NULL:
--   none).
-- $22   array of $23 of job_enqueue.sql.
-- Rows: one for each job, in the order of the arrays.
-- Locks: rows it adds. For jobs with a key also the hot rows that have the key. The row of the
--   flow, which those who add to it share.
-- Index: __deferred_hot_key, for jobs with a key.
select deferred.__enqueue_many($1::text[], $2::json[], $3::text[], $4::text[], $5::integer[],
    $6::bigint[], deferred.__moments('run_at', $7::text[]), $8::bigint[],
    deferred.__moments('expires_at', $9::text[]), $10::text[], $11::text[], $12::integer[],
    $13::bigint[], $14::bigint[], $15::bigint[], $16::double precision[], $17::text[],
    $18::integer[], $19::json[], $20::text[], $21::int8, $22::bigint[]) as id
