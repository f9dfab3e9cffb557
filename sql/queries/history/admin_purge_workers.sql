-- admin_purge_workers: delete what runs left behind that ended long ago.
-- params: older_ms int8
-- returns: purged int8
-- Locks: the rows
select deferred.__purge_workers($1::int8 * interval '1 millisecond') as purged
