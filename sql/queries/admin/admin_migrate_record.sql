-- admin_migrate_record: note that a migration was applied, in its own transaction.
-- params: version int4, name text
-- returns: nothing
-- Locks: none that others wait for
insert into deferred.__deferred_migration (version, name) values ($1::int4, $2::text)
