-- worker_disarm: this worker has work, and need not be woken.
-- params: watch int4?
-- returns: taken bool
-- $1: as $8 of worker_register.sql; NULL: none.
-- Rows: one row. taken: all locks that go with it.
-- Locks: gives back those of worker_arm.sql; advisory, for the session: (1145390673, $1).
select taken from (select pg_advisory_unlock_all(), $1::int4 is null
                   or pg_try_advisory_lock(1145390673, $1::int4) as taken offset 0) x
