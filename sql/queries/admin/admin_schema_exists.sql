-- admin_schema_exists: is there a schema to ask for its version?
-- params: none
-- returns: exists int4
-- Locks: none
select (to_regclass('deferred.__deferred_migration') is not null)::int4 as exists
