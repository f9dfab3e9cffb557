-- run_probe: is there anything to do? Asked by a start that has seen some job, and by a service that was told of one.
-- $1 queues served, text[]; NULL: all
-- $2 instance: host and pidfile, text
-- $3..$9 the parts of the index to be read, as $10..$16 of job_claim.sql. A queue not named is read whole
-- $10 delayed jobs due from then on, timestamptz, as $2 of job_promote.sql
-- returns one row: schema version (int4), some job is ready or due (bool), the previous run of this
--   instance left claims behind (bool), live workers of these queues (int8)
-- locks: none. Indexes: __deferred_hot_ready, __deferred_hot_limited, __deferred_hot_concurrency,
--   __deferred_hot_delayed, __deferred_worker_alive
with queue as materialized (
    select n.name, n.known from deferred.__claim_queues($1::text[], $3::text[]) n
    left join lateral (select x.paused from deferred.__deferred_queue x where x.name = n.name limit 1) q on true
    where q.paused is not true),
segment as materialized (
    select s.queue, s.high, s.low, s.from_xid, s.from_id, s.until_xid
    from unnest($3::text[], $4::int4[], $5::int4[], $6::xid8[], $7::int8[], $8::xid8[], $9::xid8[])
        as s(queue, high, low, from_xid, from_id, until_xid, hole)
    join queue q on q.name = s.queue
    where s.hole is null or pg_visible_in_snapshot(s.hole, pg_current_snapshot())
    union all
    select q.name, 32767, -32768, null, null, null from queue q where not q.known)
select (select max(m.version) from deferred.__deferred_migration m),
       -- (select true ... limit 1) where exists () would let the planner hash a whole index.
       exists (select from segment s cross join lateral (
           (select true from deferred.__deferred_hot h
            where h.queue = s.queue and h.priority = s.high and h.due_at is null and not h.limited and (h.xid, h.id) >= (s.from_xid, s.from_id)
              and h.xid < s.until_xid and h.visible_at <= now() and h.fn is not null limit 1)
           union all
           (select true from deferred.__deferred_hot h
            where s.from_xid is null and h.queue = s.queue and h.priority between s.low and s.high and h.due_at is null and not h.limited
              and h.visible_at <= now() and h.fn is not null limit 1)) x)
       or exists (select from deferred.__limited_queues($1::text[]) q
                  where (select true from deferred.__deferred_hot h
                         where h.queue = q.name and h.limited and h.due_at is null and h.concurrency_key is null
                           and h.visible_at <= now() and h.fn is not null limit 1)
                     or (select true from deferred.__deferred_hot h
                         where h.queue = q.name and h.concurrency_key is not null and h.due_at is null
                           and h.visible_at <= now() and h.fn is not null limit 1))
       or exists (select from deferred.__deferred_hot h
                  where h.due_at <= now() and h.fn is not null
                    and h.due_at >= $10::timestamptz
                    and ($1::text[] is null or h.queue = any ($1))),
       exists (select from deferred.__deferred_worker w where w.instance = $2::text and w.ended_at is null),
       (select count(*) from deferred.__deferred_worker w
        where w.ended_at is null and w.seen_at > now() - interval '5 minutes'
          and (w.queues is null or $1::text[] is null or w.queues && $1))
