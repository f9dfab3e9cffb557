-- why_limits: limits that a job comes under, where they stand, and what comes before it for its
-- concurrency key.
-- params: queue text, fn text, job int8
-- returns: queue_max_running int8?, queue_running int8, queue_ids text?, queue_rate float8?,
--   queue_wait_s float8, fn_max_running int8?, fn_running int8, fn_ids text?, fn_rate float8?,
--   fn_wait_s float8, key_ahead int8, key_first int8, key_state text?, key_running int8,
--   paused_s int8?, pattern text?, key_rate float8?, key_wait_s float8
-- Rows: one row. NULL: there is no such limit. Column wait_s: seconds to the next token. Columns
--   key_*: jobs of the same concurrency key: before it, the first of them, running. Column
--   paused_s: since the breaker paused the function. Column pattern: where the limits of the queue
--   come from; NULL: they are its own.
-- Locks: none. Index: primary keys of __deferred_queue, __deferred_function, __deferred_limit and
--   __deferred_hot; __deferred_hot_concurrency, 1,000 jobs at most.
with limits as materialized (
    select 'queue' as kind, q.max_running, q.rate, coalesce(q.burst, 1) as burst, l.running,
           l.tokens, l.tokens_at
    from deferred.__deferred_queue q left join deferred.__deferred_limit l on l.kind = 'queue'
        and l.queue = q.name and l.name = ''
    where q.name = $1::text and coalesce(q.max_running, q.rate) is not null
    union all
    select 'function', f.max_running, f.rate, coalesce(f.burst, 1), l.running, l.tokens, l.tokens_at
    from deferred.__deferred_function f left join deferred.__deferred_limit l on l.kind = 'function'
        and l.queue = '' and l.name = f.name
    where f.name = $2::text),
stand as materialized (
    select x.kind, x.max_running::int8, h.n as running, h.ids, x.rate,
           greatest(0, (1 - deferred.__tokens(x.tokens, x.tokens_at, x.rate, x.burst,
                                              clock_timestamp())) / x.rate) as wait_s
    from limits x
    cross join lateral (
        select count(*) as n, array_to_string((array_agg(h.id order by h.id))[1:10], ', ') || case
            when count(*) > 10 then ', ...' else '' end as ids
        from unnest(x.running) i join deferred.__deferred_hot h on h.id = i
        where h.worker is not null or (h.started_at is not null
                                       and h.visible_at > clock_timestamp())) h),
mine as materialized (
    select h.queue, h.concurrency_key as key, hashtextextended(h.concurrency_key, 0) as hash
    from deferred.__deferred_hot h where h.id = $3::int8),
of_key as materialized (
    select h.id, h.worker, h.due_at from mine m
    cross join lateral (
        select h.id, h.worker, h.due_at, h.concurrency_key from deferred.__deferred_hot h
        where h.queue = m.queue and h.concurrency_key is not null
          and hashtextextended(h.concurrency_key, 0) = m.hash and h.fn is not null
          and (h.due_at is null or h.attempt > coalesce(h.attempt_base, 0))
        order by h.queue, hashtextextended(h.concurrency_key, 0), h.id limit 1000) h
    where h.concurrency_key = m.key)
select q.max_running as queue_max_running, q.running as queue_running, q.ids as queue_ids,
       q.rate as queue_rate, q.wait_s as queue_wait_s, f.max_running as fn_max_running,
       f.running as fn_running, f.ids as fn_ids, f.rate as fn_rate, f.wait_s as fn_wait_s,
       (select count(*) from of_key k where k.id < $3) as key_ahead, b.id as key_first,
       case when b.worker is not null then 'running'
            when b.due_at > clock_timestamp() then 'waiting for its next attempt'
                when b.id is not null then 'ready' end as key_state,
       (select count(*) from of_key k where k.worker is not null) as key_running,
       (select deferred.__age_s(x.broken_at)
        from deferred.__deferred_function x where x.name = $2) as paused_s, p.pattern,
       p.key_rate,
       greatest(0, (1 - deferred.__tokens(l.tokens, l.tokens_at, p.key_rate, p.key_burst,
                                          clock_timestamp())) / p.key_rate) as key_wait_s
from (select) one
left join stand q on q.kind = 'queue'
left join (select x.name, x.pattern, x.key_rate, coalesce(x.key_burst, 1) as key_burst
           from deferred.__deferred_queue x) p on p.name = $1
left join mine m on m.key is not null
left join deferred.__deferred_limit l on l.kind = 'key' and l.queue = m.queue
    and l.name = m.hash::text
left join stand f on f.kind = 'function'
left join lateral (select k.* from of_key k where k.id <> $3 order by k.id limit 1) b on true
