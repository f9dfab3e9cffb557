-- worker_look: which of the other workers have lost their session? One that was killed has, and one
-- that is about to connect again.
-- params: worker int8
-- returns: id int8, instance text?
-- Rows: one for each worker whose session is watched. instance: if the session is gone, cut to a
--   length.
-- Locks: advisory, until the transaction ends: (1145390673, number), shared, of those that are not
--   there. Index: __deferred_worker_alive.
select w.id, case when pg_try_advisory_xact_lock_shared(1145390673, w.watch)
                      then left(w.instance, 4600) end as instance
from deferred.__deferred_worker w
where w.ended_at is null and w.watch is not null and w.id <> $1::int8
