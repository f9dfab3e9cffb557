-- worker_keep: a service says that it lives, and asks what may have changed since it started.
-- $1 worker id, int8   $2 queues served, text[]; NULL: all
-- returns one row: its registration is still there (bool), schema version (int4)
-- locks: its row. Index: primary key of __deferred_worker
with me as (
    update deferred.__deferred_worker w set seen_at = now(), queues = $2::text[] where w.id = $1::int8 and w.ended_at is null
    returning 1)
select exists (select from me), (select max(m.version) from deferred.__deferred_migration m)
