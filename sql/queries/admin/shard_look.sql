-- shard_look: what `deferred shard ls` tells of a database.
-- $1 count no more ready jobs than that (int4)
-- returns one row: its number, 0: it has none (int4), ready jobs, live workers (int8)
-- locks: none. Indexes: __deferred_hot_ready, __deferred_worker_alive
select (s.last_value / 10000000000000)::int4,
       (select count(*) from (select from deferred.__deferred_hot h where h.due_at is null and h.fn is not null limit $1::int4) x),
       (select count(*) from deferred.__deferred_worker w where w.ended_at is null)
from deferred.__deferred_id_seq s
