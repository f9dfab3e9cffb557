-- admin_purge_log: delete outlived attempts from some pages of a partition.
-- params: partition text, older_ms int8, first_page int8, pages int4, dead_older_ms int8?
-- returns: deleted int8
-- $5 NULL: dead jobs stay
-- Locks: the rows
select deferred.__purge_log($1::text::regclass, $2::int8 * interval '1 millisecond', $3::int8,
                            $4::int4, $5::int8 * interval '1 millisecond') as deleted
