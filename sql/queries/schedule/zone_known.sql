-- zone_known: fails if the server does not know a time zone.
-- params: zone text
-- returns: ignored
-- Locks: none
select pg_catalog.clock_timestamp() at time zone $1::text
