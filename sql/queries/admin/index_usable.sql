-- index_usable: can a search use an index for this?
-- $1 label, or params. and keys with dots between (text)
-- returns one row (bool)
-- locks: none
select deferred.__search_usable($1::text)
