-- message_queues: queues of an account.
-- params: account text, prefix text, first text, rows_max int4
-- returns: name text, metadata json
-- $2, $3: without the account; NULL: any
-- Rows: in byte order of the names
-- Locks: none. Index: __deferred_queue_pkey
select q.name, q.metadata from deferred.__message_queues($1::text, $2::text, $3::text, $4::int4) q
