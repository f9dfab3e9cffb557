-- admin_purge_partition: drop one partition that nobody needs.
-- params: older_ms int8, dead_older_ms int8?, in_use text
-- returns: name text?, dropped bool
-- $2 NULL: dead jobs stay
-- Rows: one row. name NULL: none is left
-- Locks: the partition and its parent, exclusively; gives up after 100 ms
select p.name, p.dropped
from deferred.__purge_partition($1::int8 * interval '1 millisecond',
                                $2::int8 * interval '1 millisecond', $3::text::text[]) p
