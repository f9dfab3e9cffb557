-- run_probe: is there anything to do? The one question of a start with nothing due.
-- $1 queues served, text[]; NULL: all
-- $2 instance: host and pidfile, text
-- returns one row: schema version (int4), some job is ready or due (bool), the previous run of this
--   instance left claims behind (bool), live workers of these queues (int8)
-- locks: none. Indexes: __deferred_hot_ready, __deferred_hot_limited, __deferred_hot_concurrency,
--   __deferred_hot_delayed, __deferred_worker_alive
select (select max(m.version) from deferred.__deferred_migration m),
       exists (select from deferred.__deferred_queue q
               where ($1::text[] is null or q.name = any ($1)) and not q.paused
                 -- (select true ... limit 1) where exists () would let the planner hash a whole index.
                 and (exists (select from deferred.__deferred_hot h
                              where h.queue = q.name and h.due_at is null and not h.limited and h.visible_at <= now() and h.fn is not null)
                      or (q.limited_jobs
                          and ((select true from deferred.__deferred_hot h
                                where h.queue = q.name and h.limited and h.due_at is null and h.concurrency_key is null
                                  and h.visible_at <= now() and h.fn is not null limit 1)
                               or (select true from deferred.__deferred_hot h
                                   where h.queue = q.name and h.concurrency_key is not null and h.due_at is null
                                     and h.visible_at <= now() and h.fn is not null limit 1)))))
       or exists (select from deferred.__deferred_hot h
                  where h.due_at <= now() and h.fn is not null and ($1::text[] is null or h.queue = any ($1))),
       exists (select from deferred.__deferred_worker w where w.instance = $2::text and w.ended_at is null),
       (select count(*) from deferred.__deferred_worker w
        where w.ended_at is null and w.seen_at > now() - interval '5 minutes'
          and (w.queues is null or $1::text[] is null or w.queues && $1))
