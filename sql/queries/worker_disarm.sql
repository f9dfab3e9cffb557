-- worker_disarm: this worker has work, and need not be woken.
-- no parameters
-- returns one row, ignored
-- locks: gives back those of worker_arm.sql
select pg_advisory_unlock_all()
