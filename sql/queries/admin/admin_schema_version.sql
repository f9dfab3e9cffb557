-- admin_schema_version: newest migration applied. Fails with 42P01 where there is no schema.
-- no parameters
-- returns one row: version (int4), 0 if none
-- locks: none. Index: primary key of __deferred_migration
select coalesce(max(version), 0)::int4 from deferred.__deferred_migration
