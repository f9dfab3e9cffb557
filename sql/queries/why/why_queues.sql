-- why_queues: of each queue that has limits, and of each function that has, whether they are used
-- up.
-- params: none
-- returns: queue text?, fn text?, max_running int8?, rate float8, used_up bool, paused_s int8?,
--   pattern text?
-- Rows: queue or function is NULL. paused_s: since the breaker paused the function.
--   pattern: where limits of the queue come from, or NULL.
-- Locks: none. Index: primary keys of __deferred_limit and __deferred_hot; all of __deferred_queue
--   and __deferred_function
with limits as materialized (
    select q.name as queue, null::text as fn, q.max_running, q.rate, coalesce(q.burst, 1) as burst,
           l.running, l.tokens, l.tokens_at, null::timestamptz as broken_at, q.pattern
    from deferred.__deferred_queue q join deferred.__deferred_limit l on l.kind = 'queue'
        and l.queue = q.name and l.name = ''
    where coalesce(q.max_running, q.rate) is not null and q.removed_at is null
    union all
    select null, f.name, f.max_running, f.rate, coalesce(f.burst, 1), l.running, l.tokens,
           l.tokens_at, f.broken_at, null
    from deferred.__deferred_function f left join deferred.__deferred_limit l on l.kind = 'function'
        and l.queue = '' and l.name = f.name)
select x.queue, x.fn, x.max_running::int8, x.rate,
       coalesce((select count(*) from unnest(x.running) i join deferred.__deferred_hot h on h.id = i
                 where h.worker is not null or (h.started_at is not null
                                                and h.visible_at > clock_timestamp())) >=
                                                    x.max_running, false)
       or coalesce(deferred.__tokens(x.tokens, x.tokens_at, x.rate, x.burst, clock_timestamp()) < 1,
                   false) as used_up,
       deferred.__age_s(x.broken_at) as paused_s, x.pattern
from limits x
limit 10000
