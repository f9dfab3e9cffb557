-- admin_purge_partition: drop one partition that nobody needs.
-- $1 older than, $2 of dead jobs, milliseconds (int8); $2 NULL: dead jobs stay.
-- $3 partitions that were in use (text, as an array)
-- returns one row: its name (text), NULL when none is left; false if it is in use (bool)
-- locks: the partition and its parent, exclusively; gives up after 100 ms
select p.name, p.dropped
from deferred.__purge_partition($1::int8 * interval '1 millisecond', $2::int8 * interval '1 millisecond', $3::text::text[]) p
