-- maintain: add the partitions that the next weeks need.
-- no parameters
-- returns one row: how many were added (int4)
-- locks: none when there is nothing to do; else briefly the parents and their net partitions. Gives up, and
--   returns 0, after 500 ms
select deferred.maintain()
