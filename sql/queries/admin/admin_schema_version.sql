-- admin_schema_version: newest migration applied. Fails with 42P01 where there is no schema.
-- params: none
-- returns: version int4
-- Locks: none. Index: primary key of __deferred_migration
select coalesce(max(version), 0)::int4 as version from deferred.__deferred_migration
