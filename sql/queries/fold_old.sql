-- fold_old: has nobody folded for $1 milliseconds?
-- $1 int8
-- returns one row: true if so
-- locks: none. Index: none, there is one row
select coalesce(bool_or(f.folded_to < now() - $1::int8 * interval '1 millisecond'), false) from deferred.__deferred_folded f
