-- The number of jobs of each queue, counted up to p_max, for `deferred status` and
-- deferred.__fold(). A message is claimed while a consumer has it hidden. A call that is due is
-- ready, even before a worker has promoted it. Claimed jobs are counted by leases. Ready jobs are
-- counted from the cursors of the lanes, so dead rows before a cursor cost nothing.
--
-- For the few rows that it counts, the planner would read the whole index of a queue as a bitmap.
-- With a million ready jobs that takes 112 ms instead of 9 ms. If nearly all jobs are in one queue,
-- the planner would read all of them to find none of another queue. An order that only the index
-- has prevents this. The function sets the planner's settings itself, because its caller has
-- others.
create or replace function deferred.__depths(p_max bigint)
returns table (queue text, paused boolean, limited boolean, ready bigint, claimed bigint,
               delayed bigint, ready_more boolean, delayed_more boolean, oldest_ready_s bigint)
language sql stable
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = on
set enable_mergejoin = off set enable_nestloop = on
as $$
with held as materialized (
    select h.id, h.queue, h.limited, h.visible_at, bool_or(l.expires_at > clock_timestamp()) as good
    from deferred.__deferred_lease l
    cross join lateral unnest(l.ids) i(id)
    cross join lateral (
        select x.id, x.queue, x.limited, x.visible_at from deferred.__deferred_hot x
        where x.id = any (array[i.id]) and pg_visible_in_snapshot(x.xid, l.snap) offset 0) h
    group by h.id, h.queue, h.limited, h.visible_at),
claimed as (
    select h.queue, count(*) as n from held h where h.good group by h.queue),
free as (
    select x.queue, count(*) as n, min(x.visible_at) as since
    from (select r.queue, r.visible_at from deferred.__ready(null, null, null, null, $1 + 1) r
          union all
          select h.queue, h.visible_at from held h where not h.good and not h.limited) x
    group by x.queue),
due as (
    select x.queue, count(*) as n, min(x.due_at) as since
    from (select h.queue, h.due_at from deferred.__deferred_hot h
          where h.due_at <= now() and h.fn is not null
          order by h.due_at limit $1 + 1) x
    group by x.queue),
delayed as (
    select x.queue, count(*) as n
    from (select h.queue from deferred.__deferred_hot h where h.due_at > now() and h.fn is not null
          limit $1 + 1) x
    group by x.queue),
stopped as (
    select (select coalesce(sum(n), 0) > $1 from due) as due,
           (select coalesce(sum(n), 0) > $1 from delayed) as delayed),
counts as (
    select q.name as queue, deferred.__is_paused(q) as paused, q.removed_at,
           coalesce(q.max_running, q.rate) is not null as limited,
           coalesce(f.n, 0) + r.ready + coalesce(e.n, 0) as ready,
           coalesce(c.n, 0) + m.claimed as claimed, coalesce(d.n, 0) + m.delayed as delayed,
           least(f.since, r.since, e.since) as since, m.more, s.due as due_more,
           s.delayed as delayed_more
    from deferred.__deferred_queue q
    cross join stopped s
    left join free f on f.queue = q.name
    left join claimed c on c.queue = q.name
    left join due e on e.queue = q.name
    left join delayed d on d.queue = q.name
    cross join lateral (
        select exists (select from deferred.__deferred_limited y
                       where y.queue = q.name) as limited) l
    cross join lateral (
        select count(*) as ready, min(x.visible_at) as since
        from (select h.visible_at
              from deferred.__deferred_hot h left join held d on d.id = h.id and d.good
              where l.limited and h.queue = q.name and h.due_at is null and h.limited
                and h.concurrency_key is null and h.unknown in (false, true)
                and h.fn is not null and d.id is null
              union all
              select h.visible_at
              from deferred.__deferred_hot h left join held d on d.id = h.id and d.good
              where l.limited and h.queue = q.name and h.due_at is null
                and h.concurrency_key is not null and h.fn is not null and d.id is null
              union all
              select h.visible_at from deferred.__deferred_hot h
              where h.queue = q.name and h.fn is null and h.due_at is null
              union all
              select h.due_at from deferred.__deferred_hot h
              where h.queue = q.name and h.fn is null and h.due_at <= now()
              limit $1 + 1) x) r
    cross join lateral (
        select count(*) filter (where x.started_at is not null) as claimed,
               count(*) filter (where x.started_at is null) as delayed,
               count(*) > $1 as more
        from (select h.started_at from deferred.__deferred_hot h
              where h.queue = q.name and h.fn is null and h.due_at > now() limit $1 + 1) x) m)
select c.queue, c.paused, c.limited, least(c.ready, $1), least(c.claimed, $1),
       least(c.delayed, $1), c.ready > $1 or c.claimed > $1 or c.more or c.due_more,
       c.delayed_more or c.more, deferred.__age_s(c.since)
from counts c
where c.removed_at is null or c.ready + c.claimed + c.delayed > 0
$$;
comment on function deferred.__depths(bigint) is
    'ready, delayed and claimed jobs of each queue, as far as it counts';
grant execute on function deferred.__depths(bigint) to deferred_worker, deferred_viewer;
