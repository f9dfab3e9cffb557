-- admin_migrate_applied: note that a function or view was applied, in its own transaction.
-- params: name text, checksum text
-- returns: nothing
-- Locks: the row
-- Locks: the row
insert into deferred.__deferred_source as s (name, checksum)
values ($1::text, $2::text)
on conflict (name) do update set checksum = excluded.checksum, applied_at = excluded.applied_at
