-- fold_kept: add a slice of the log to the sums, which nothing that goes wrong here may spoil: part
-- of the housekeeping of a service, and of reading. A viewer adds nothing.
-- params: none
-- returns: more bool
-- locks, index: as fold.sql
select deferred.__fold_kept() as more
