-- index_next: what is to be done next for an index for searches to stand, or to be gone.
-- $1 label, or params. and keys with dots between (text)
-- returns one row: build, drop, leftover: drop what an interrupted build left, or wait: somebody builds it (text, NULL: all is done), the partition (text), the
--   statement (text), rows of the partition as the server estimates (int8)
-- locks: the net, for at most 100 ms where it has to wait
select n.what, n.part, n.statement, n.part_rows from deferred.__search_next($1::text) n
