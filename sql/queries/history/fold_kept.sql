-- fold_kept: add a slice of the log to the sums. An error here must not fail the caller: the
-- housekeeping of a service, or a reader. A viewer adds nothing.
-- params: none
-- returns: more bool
-- Locks, index: as fold.sql.
select deferred.__fold_kept() as more
