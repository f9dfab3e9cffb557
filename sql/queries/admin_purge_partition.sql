-- admin_purge_partition: drop one partition that nobody needs.
-- $1 older than, milliseconds (int8)
-- returns one row: its name (text), NULL when none is left or one is in use
-- locks: the partition and its parent, exclusively; gives up after 100 ms
select deferred.__purge_partition($1::int8 * interval '1 millisecond')
