-- admin_purge_orphans: delete what stands beside jobs that are gone, and flows of which no job is left.
-- $1 older than, milliseconds (int8), $2 first id of a flow (int8), $3 rows to delete of each kind, and flows to look at (int4)
-- returns one row: rows deleted (int8), id to go on from (int8), NULL when nothing further is old enough
-- locks: the rows. Index: primary keys of __deferred, __deferred_edge, __deferred_wait, __deferred_member and __deferred_flow
select p.purged, p.next_id from deferred.__purge_orphans($1::int8 * interval '1 millisecond', $2::int8, $3::int4) p
