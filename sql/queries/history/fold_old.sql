-- fold_old: add a slice of the log to the sums where that has not been done for a while; by a run
-- that ends.
-- params: age_ms int8
-- returns: done bool
-- Rows: one row if the sums were that old.
-- Locks, index: as fold.sql.
-- The function stands in the list of columns: in a join it might be called first, and so by each
--   run.
select (deferred.__fold()).done from deferred.__deferred_folded x
where x.folded_to < now() - $1::int8 * interval '1 millisecond'
