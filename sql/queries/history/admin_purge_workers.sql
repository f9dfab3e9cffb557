-- admin_purge_workers: delete what runs left behind that ended long ago.
-- $1 older than, milliseconds (int8)
-- returns one row: how many (int8)
-- locks: the rows
select deferred.__purge_workers($1::int8 * interval '1 millisecond')
