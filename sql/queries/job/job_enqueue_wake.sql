-- Wake idle workers, after jobs were stored by COPY.
--
-- $1 queues text[], each once.
-- Returns: a row a queue, ignored.
-- Locks: none. Index: none.
select deferred.__wake(q) from unnest($1::text[]) q
