-- admin_schema_version: newest migration applied, and the lowest schema version whose programs work
-- with it. Fails with 42P01 where there is no schema.
-- params: none
-- returns: version int4, oldest int4
-- Locks: none
select coalesce(max(m.version), 0)::int4 as version,
       coalesce(max(coalesce(m.oldest, m.version)), 0)::int4 as oldest
from deferred.__deferred_migration m
