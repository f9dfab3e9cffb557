-- admin_purge_aside: set aside one partition that nobody needs, to be archived.
-- params: older_ms int8
-- returns: name text?
-- Rows: one row: its new name; NULL: none is left, or one is in use.
-- Locks: the partition and its parent, exclusively; gives up after 100 ms.
select deferred.__purge_aside($1::int8 * interval '1 millisecond') as name
