-- A transaction that adds a queue may not see a pattern, which in turn does not see the queue.
create or replace function deferred.__patterns_missed() returns void
language sql set search_path = pg_catalog, pg_temp
as $$
    update deferred.__deferred_queue q set pattern = ''
    where q.name = any (array(
        select x.name from deferred.__deferred_queue x
        where x.pattern is null and x.removed_at is null
          and exists (select from deferred.__deferred_pattern p
                      where starts_with(x.name, left(p.pattern, -1)))
          and to_jsonb(x) @> deferred.__queue_plain()
        for update skip locked))
$$;
comment on function deferred.__patterns_missed is
    'part of deferred.maintain(): gives queues the settings of patterns set while they were added';
