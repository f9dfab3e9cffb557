-- worker_offer: the functions a worker has.
-- params: host text, origin text, catalog int8, fns text[], plugins text[], timeout_ms int8[],
--   max_attempts int4[]
-- returns: ignored
-- $2 plugin folder and config file. $3 hash of the rest
-- Rows: ignored. The transaction commits asynchronously. Locks: its row. Index: primary key of
--   __deferred_offer
-- Locks: its row. Index: primary key of __deferred_offer
select deferred.__offer($1::text, $2::text, $3::int8, $4::text[], $5::text[], $6::int8[],
                        $7::int4[])
