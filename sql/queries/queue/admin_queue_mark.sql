-- admin_queue_mark: after a limit was set or taken away, mark the next some jobs accordingly.
-- params: first_id int8, jobs_max int4
-- returns: marked int8, next_id int8?
-- Rows: one row. The id is where to go on; NULL: that was all.
-- Locks: the rows changed; those locked by others are left to the claim that meets them. Index:
--   primary key of __deferred_hot.
select m.marked, m.next_id from deferred.__mark($1::int8, $2::int4) m
