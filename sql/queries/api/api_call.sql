-- api_call: one request of the JSON API.
-- params: token text, op text, arg text, names text[], given text[], body text, key text, look int4
-- returns: status int4, answer text, location text?, replayed bool, retry_after int8?,
--   wait_ms int8?, waits_for int8?, who text?
-- $1   SHA-256 of the token, in hexadecimal digits.
-- $2   what is asked for: deferred.__api_run().
-- $3   id or name in the path. NULL: none.
-- $4, $5 names and values of the parameters of the query.
-- $6   body. Empty: none.
-- $7   Idempotency-Key. NULL: none.
-- $8   not 0: only check the token, before its body is received.
-- Rows: one row. Column who: name of the token. Column waits_for: the job that the client waits
--   for, because it has not ended yet, wait_ms at most.
-- Locks: those of the function that does it. Index: unique index of __deferred_token, primary key
--   of __deferred_idempotency
select a.status, a.answer, a.location, a.replayed, a.retry_after::int8, a.wait_ms, a.waits_for,
       a.who
from deferred.__api($1::text, $2::text, $3::text, $4::text[], $5::text[], $6::text, $7::text,
                    $8::int4 <> 0) a
