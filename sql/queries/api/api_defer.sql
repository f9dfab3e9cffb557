-- api_defer: jobs of several requests of the JSON API.
-- params: tokens text[], bodies text[], keys text[]
-- returns: item int4, status int4, answer text, location text?, replayed bool, retry_after int8?,
--   who text?
-- Arrays in step: $1 SHA-256 of the token, in hexadecimal digits, $2 body, $3 Idempotency-Key or
--   NULL.
-- Rows: one for each element, with its number from 1.
-- Locks: none but of what it adds; a repeated key waits for the first request with it. Index: as
--   api_call, and as job_enqueue_many.
select m.item, m.status, m.answer, m.location, m.replayed, m.retry_after::int8, m.who
from deferred.__api_many($1::text[], $2::text[], $3::text[]) m
