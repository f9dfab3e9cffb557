-- fold: add a slice of the log to the sums; to be called until it is done, in transactions of its
-- own.
-- params: none
-- returns: attempts int8, arrived int8, behind_ms int8, done bool, busy bool
-- Locks: the row of __deferred_folded, which is not waited for; a queue's row, never. Index:
--   __deferred_log_finished, __deferred_pkey; see deferred.__fold()
select f.attempts, f.arrived, f.behind_ms, f.done, f.busy from deferred.__fold() f
