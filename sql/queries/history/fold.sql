-- fold: add a slice of the log to the sums; to be called until it is done, in transactions of its own.
-- no parameters
-- returns one row: attempts added (int8), arrivals added (int8), milliseconds the sums are behind (int8), nothing is left (bool), somebody else is
--   at it (bool)
-- locks: the row of __deferred_folded, which is not waited for; a queue's row, never. Index: __deferred_log_finished, __deferred_pkey;
--   see deferred.__fold()
select f.attempts, f.arrived, f.behind_ms, f.done, f.busy from deferred.__fold() f
