-- index_next: what is to be done next for an index for searches to stand, or to be gone.
-- params: term text
-- returns: what text?, part text, statement text?, part_rows int8
-- Rows: one row. what: build, drop, leftover (drop what an interrupted build left), or wait:
--   somebody builds it. NULL: all is done
-- Locks: the net, for at most 100 ms where it has to wait
select n.what, n.part, n.statement, n.part_rows from deferred.__search_next($1::text) n
