-- admin_queue_mark: after a limit was set or taken away, mark the next some jobs accordingly.
-- $1 first id (int8), $2 hot jobs to look at (int4)
-- returns one row: jobs changed (int8), id to go on from (int8), NULL: that was all
-- locks: the rows changed; those locked by others are left to the claim that meets them. Index: primary key of __deferred_hot
select m.marked, m.next_id from deferred.__mark($1::int8, $2::int4) m
