-- admin_migrate_record: note that a migration was applied, in its own transaction.
-- params: version int4, name text, oldest int4
-- returns: nothing
-- $3 0: only programs that bring this step work with it.
-- Locks: none that others wait for
insert into deferred.__deferred_migration (version, name, oldest)
values ($1::int4, $2::text, nullif($3::int4, 0))
