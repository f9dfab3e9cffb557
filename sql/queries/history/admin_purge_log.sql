-- admin_purge_log: delete outlived attempts from some pages of a partition.
-- $1 partition (text), $2 older than, milliseconds (int8), $3 first page (int8), $4 pages (int4)
-- $5 older than, of dead jobs, milliseconds (int8); NULL: dead jobs stay
-- returns one row: attempts deleted (int8)
-- locks: the rows
select deferred.__purge_log($1::text::regclass, $2::int8 * interval '1 millisecond', $3::int8, $4::int4, $5::int8 * interval '1 millisecond')
