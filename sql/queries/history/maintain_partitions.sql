-- maintain_partitions: add the partitions that the next weeks need, and drop what attempts that
-- were cut off said of their progress.
-- params: none
-- returns: added int4
-- Locks: none when there is nothing to do; else briefly the parents and their net partitions. Gives
--   up, and returns 0, after 500 ms. Reads all of __deferred_progress, where only attempts in
--   progress have rows
with stale as (
    delete from deferred.__deferred_progress p
    where p.reported_at < now() - interval '1 minute'
      and not exists (select from deferred.__deferred_hot h
                      where h.id = p.job_id and h.attempt + 1 = p.attempt))
select deferred.maintain() as added
