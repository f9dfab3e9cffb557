-- shard_look: what `deferred shard ls` tells of a database.
-- params: ready_max int4
-- returns: shard int4, ready int8, workers int8
-- Rows: one row. shard 0: it has none
-- Locks: none. Indexes: __deferred_hot_ready, __deferred_worker_alive
select (s.last_value / 10000000000000)::int4 as shard,
       (select count(*) from (select from deferred.__deferred_hot h
                              where h.due_at is null and h.fn is not null
                              limit $1::int4) x) as ready,
       (select count(*) from deferred.__deferred_worker w where w.ended_at is null) as workers
from deferred.__deferred_id_seq s
