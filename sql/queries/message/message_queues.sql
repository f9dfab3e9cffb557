-- message_queues: queues of an account.
-- params: account text, prefix text, first text, rows_max int4
-- returns: name text, metadata json
-- $1 account, $2 prefix of their names, $3 first name; both without the account, NULL: any. $4 most
--   rows.
-- rows: a row a queue, in byte order of the names: name without the account, metadata.
-- locks: none. Index: __deferred_queue_pkey
select q.name, q.metadata from deferred.__message_queues($1::text, $2::text, $3::text, $4::int4) q
