-- spool_store: store entries of a spool, each once.
-- params: ids text[], jobs text[]
-- returns: n int4, state text, message text, hint text
-- $1 their UUIDs. $2 their jobs, as deferred.defer_many() takes them.
-- Rows: one for each entry that was refused; n is its place in the arrays, from 1.
-- Locks: rows it adds. As job_enqueue_many.
-- Index: __deferred_spooled_pkey.
select s.n, s.state, s.message, s.hint
from deferred.__spool_store($1::text[]::uuid[], $2::text[]) s
