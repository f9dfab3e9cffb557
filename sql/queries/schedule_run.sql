-- schedule_run: a job of a schedule now, outside of its rule.
-- $1 name (text)
-- returns one row: job id (int8; NULL: the queue is full, and drops)
-- locks: none that others wait for
select deferred.schedule_run($1)
