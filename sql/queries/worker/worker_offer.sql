-- worker_offer: the functions a worker has.
-- $1 host, text   $2 place: plugin folder and config file, text   $3 hash of what follows, int8
-- $4 names, text[]   $5 plugins, text[]   $6 time limits, int8[], milliseconds   $7 attempts, int4[]
-- returns one row, ignored; its transaction commits asynchronously. Locks: its row. Index: primary key of __deferred_offer
select deferred.__offer($1::text, $2::text, $3::int8, $4::text[], $5::text[], $6::int8[], $7::int4[])
