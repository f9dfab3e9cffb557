-- fold_rebuild: throw the sums away, so that folding begins at the oldest row of the log.
-- params: none
-- returns: ignored
-- Locks: the row of __deferred_folded; the tables of sums, exclusively. Reads all of the log
select deferred.__fold_rebuild()
