-- worker_keep: a service says that it lives, and asks what may have changed since it started.
-- $1 worker id, int8   $2 queues served, text[]; NULL: all
-- returns one row: its registration is still there (bool), schema version (int4), live workers of these queues (int8)
-- locks: its row. Index: __deferred_worker_alive
with me as (
    update deferred.__deferred_worker w set seen_at = now(), queues = $2::text[] where w.id = $1::int8 and w.ended_at is null
    returning 1)
select exists (select from me), (select max(m.version) from deferred.__deferred_migration m),
       (select count(*) from deferred.__deferred_worker w
        where w.ended_at is null and w.seen_at > now() - interval '5 minutes'
          and (w.queues is null or $2::text[] is null or w.queues && $2))
