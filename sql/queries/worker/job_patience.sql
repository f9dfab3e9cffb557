-- job_patience: how long the statements that follow in this transaction wait for a lock.
-- $1 milliseconds, or a time with its unit, text
-- returns one row, ignored
select set_config('lock_timeout', $1::text, true)
