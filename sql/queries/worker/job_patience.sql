-- job_patience: how long the statements that follow in this transaction wait for a lock.
-- params: patience text
-- returns: ignored
select set_config('lock_timeout', $1::text, true)
