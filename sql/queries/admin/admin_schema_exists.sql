-- admin_schema_exists: is there a schema to ask for its version?
-- no parameters
-- returns one row: 1 or 0 (int4)
-- locks: none
select (to_regclass('deferred.__deferred_migration') is not null)::int4
