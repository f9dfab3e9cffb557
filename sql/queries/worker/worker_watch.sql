-- worker_watch: take the lock again by which others see that we live, for worker_disarm.sql gave
-- back all of the session.
-- params: worker int8
-- returns: nothing
-- Locks: advisory, for the session: (1145390673, its number); its row, where somebody else has that
--   just now. Index: primary key of __deferred_worker
update deferred.__deferred_worker w set watch = null
where w.id = $1::int8 and w.watch is not null and not pg_try_advisory_lock(1145390673, w.watch)
