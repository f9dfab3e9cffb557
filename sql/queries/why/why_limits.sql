-- why_limits: limits that a job comes under, where they stand, and what comes before it for its concurrency key.
-- $1 queue (text)   $2 function (text)   $3 job id (int8)
-- returns one row: max_running of the queue, those running (int8; NULL: no such limit), their ids (text), rate of the queue a second (float8), seconds to its next token (float8); the
--   same of the function; jobs of the key before it, the first of them (int8), state of that (text), those of the key that run (int8), seconds since the breaker paused the
--   function (int8; NULL: it did not)
-- locks: none. Index: primary keys of __deferred_queue, __deferred_function, __deferred_limit and __deferred_hot; __deferred_hot_concurrency, 1,000 jobs at most
with limits as materialized (
    select 'queue' as kind, q.max_running, q.rate, coalesce(q.burst, 1) as burst, l.running, l.tokens, l.tokens_at
    from deferred.__deferred_queue q left join deferred.__deferred_limit l on l.kind = 'queue' and l.queue = q.name and l.name = ''
    where q.name = $1::text and coalesce(q.max_running, q.rate) is not null
    union all
    select 'function', f.max_running, f.rate, coalesce(f.burst, 1), l.running, l.tokens, l.tokens_at
    from deferred.__deferred_function f left join deferred.__deferred_limit l on l.kind = 'function' and l.queue = '' and l.name = f.name
    where f.name = $2::text),
stand as materialized (
    select x.kind, x.max_running::int8, h.n as running, h.ids, x.rate,
           greatest(0, (1 - least(x.burst, coalesce(x.tokens + extract(epoch from clock_timestamp() - x.tokens_at) * x.rate, x.burst))) / x.rate)::float8 as wait_s
    from limits x
    cross join lateral (
        select count(*) as n, array_to_string((array_agg(h.id order by h.id))[1:10], ', ') || case when count(*) > 10 then ', ...' else '' end as ids
        from unnest(x.running) i join deferred.__deferred_hot h on h.id = i
        where h.worker is not null or (h.started_at is not null and h.visible_at > clock_timestamp())) h),
mine as materialized (
    select h.queue, h.concurrency_key as key, hashtextextended(h.concurrency_key, 0) as hash from deferred.__deferred_hot h where h.id = $3::int8),
of_key as materialized (
    select h.id, h.worker, h.due_at from mine m
    cross join lateral (
        select h.id, h.worker, h.due_at, h.concurrency_key from deferred.__deferred_hot h
        where h.queue = m.queue and h.concurrency_key is not null and hashtextextended(h.concurrency_key, 0) = m.hash and h.fn is not null
          and (h.due_at is null or h.attempt > coalesce(h.attempt_base, 0))
        order by h.queue, hashtextextended(h.concurrency_key, 0), h.id limit 1000) h
    where h.concurrency_key = m.key)
select q.max_running, q.running, q.ids, q.rate, q.wait_s, f.max_running, f.running, f.ids, f.rate, f.wait_s,
       (select count(*) from of_key k where k.id < $3), b.id,
       case when b.worker is not null then 'running' when b.due_at > clock_timestamp() then 'waiting for its next attempt' when b.id is not null then 'ready' end,
       (select count(*) from of_key k where k.worker is not null),
       (select extract(epoch from clock_timestamp() - x.broken_at)::int8 from deferred.__deferred_function x where x.name = $2)
from (select) one
left join stand q on q.kind = 'queue'
left join stand f on f.kind = 'function'
left join lateral (select k.* from of_key k where k.id <> $3 order by k.id limit 1) b on true
