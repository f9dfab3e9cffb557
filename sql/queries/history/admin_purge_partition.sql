-- admin_purge_partition: drop one partition that nobody needs.
-- params: older_ms int8, dead_older_ms int8?, in_use text
-- returns: name text?, dropped bool
-- $1 older than, $2 of dead jobs, milliseconds; $2 NULL: dead jobs stay. $3 partitions that were in
--   use (as an array).
-- rows: one row: its name, NULL when none is left; false if it is in use.
-- locks: the partition and its parent, exclusively; gives up after 100 ms
select p.name, p.dropped
from deferred.__purge_partition($1::int8 * interval '1 millisecond',
                                $2::int8 * interval '1 millisecond', $3::text::text[]) p
