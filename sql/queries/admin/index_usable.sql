-- index_usable: can a search use an index for this?
-- params: term text
-- returns: usable bool
-- Locks: none
select deferred.__search_usable($1::text) as usable
