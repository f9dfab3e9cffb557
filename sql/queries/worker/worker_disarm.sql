-- worker_disarm: this worker has work, and need not be woken.
-- $1 number under which others see that it lives, int4, as $8 of worker_register.sql; NULL: none
-- returns one row: what all goes with is taken again (bool)
-- locks: gives back those of worker_arm.sql; advisory, for the session: (1145390673, $1)
select taken from (select pg_advisory_unlock_all(), $1::int4 is null or pg_try_advisory_lock(1145390673, $1::int4) as taken offset 0) x
