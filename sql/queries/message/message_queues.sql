-- message_queues: queues of an account.
-- $1 account (text), $2 prefix of their names (text), $3 first name (text); both without the account, NULL: any. $4 most rows (int4)
-- returns a row a queue, in byte order of the names: name without the account (text), metadata (json)
-- locks: none. Index: __deferred_queue_pkey
select q.name, q.metadata from deferred.__message_queues($1::text, $2::text, $3::text, $4::int4) q
