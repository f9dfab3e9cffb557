-- How many jobs another worker could start now, for autoscalers, which ask often. Each part below
-- reads at most 10,000 rows, so the answer takes no longer with a long backlog. A part may be full
-- of rows that do not count, for example of jobs that are due in other queues. Then the answer is
-- at least 1, because a job that counts may lie behind them. With 0 workers nobody would move it.
--
-- It sets the planner's settings for the reason that sql/functions/queue/__depths.sql gives.
create or replace function deferred.backlog(queue text) returns bigint
language sql stable
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off
set enable_mergejoin = off set enable_nestloop = on set jit = off
as $$
with served as materialized (
    -- NULL: all. A queue without a row is not paused.
    select case when $1 is not null then array[$1]
                when exists (select from deferred.__deferred_queue q where deferred.__is_paused(q))
                    then array(select q.name from deferred.__deferred_queue q
                               where not deferred.__is_paused(q)) end as queues
    where not exists (select from deferred.__deferred_queue q
                      where q.name = $1 and deferred.__is_paused(q))),
seen as (
    (select 'lanes' as part, true as counts
     from served s
     cross join lateral deferred.__ready(s.queues, null, null, null, 10000, 10000) r)
    union all
    -- Delayed jobs that are due. A worker promotes those of all queues, the first due first.
    (select 'due', s.queues is null or h.queue = any (s.queues)
     from served s
     cross join lateral (select x.queue from deferred.__deferred_hot x
                         where x.due_at <= now() and x.fn is not null
                         order by x.due_at limit 10000) h)
    union all
    -- Jobs of workers that did not renew their leases.
    (select 'lost', (s.queues is null or l.queue = any (s.queues))
                    and exists (select from deferred.__deferred_hot h
                                where h.id = i.id and h.due_at is null and not h.limited
                                  and pg_visible_in_snapshot(h.xid, l.snap))
     from served s
     cross join lateral (select x.queue, x.ids, x.snap from deferred.__deferred_lease x
                         where x.expires_at <= now() order by x.expires_at limit 10000) l
     cross join lateral unnest(l.ids) i(id)
     limit 10000)
    union all
    -- Jobs with a limit, and jobs of functions that no worker has offered.
    (select 'limited', h.due_at is null
                       and (h.worker is null
                            or not exists (select from deferred.__deferred_lease l
                                           where l.span @> h.id and h.id = any (l.ids)
                                             and l.expires_at > now()))
     from served s
     cross join lateral (select distinct y.queue from deferred.__deferred_limited y
                         where s.queues is null or y.queue = any (s.queues)) q
     cross join lateral (
        select x.id, x.due_at, x.worker from deferred.__deferred_hot x
        where x.queue = q.queue and x.limited and x.due_at is null
          and x.concurrency_key is null and x.unknown in (false, true)
        union all
        select x.id, x.due_at, x.worker from deferred.__deferred_hot x
        where x.queue = q.queue and x.concurrency_key is not null
          and (x.due_at is null or x.attempt > coalesce(x.attempt_base, 0))) h
     limit 10000)
    union all
    -- Messages, which consumers take, so that a worker for all queues does not start for them.
    (select 'messages', true
     from served s
     cross join lateral (
        select from deferred.__deferred_hot x
        where x.queue = $1 and x.fn is null and x.due_at is null
        union all
        select from deferred.__deferred_hot x
        where x.queue = $1 and x.fn is null and x.due_at <= now()) h
     limit 10000)),
parts as (select count(*) filter (where s.counts) as n, count(*) = 10000 as is_full
          from seen s group by s.part)
select least(greatest(sum(p.n), bool_or(p.is_full)::integer, 0), 10000)::bigint from parts p
$$;
comment on function deferred.backlog(text) is
    'how many jobs of a queue, NULL: of all queues, another worker could start now, counted to '
    '10,000';
grant execute on function deferred.backlog(text) to deferred_worker, deferred_viewer;
