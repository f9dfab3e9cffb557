-- How much lies in each queue, counted no further than so many jobs of a queue; for `deferred status` and for deferred.__fold(). A message is claimed while
-- a consumer has it hidden; a call whose time has come is ready, though no worker has looked yet. For the few it counts, the planner would read the whole
-- index of a queue as a bitmap: 112 ms with a million ready jobs, where 9 do. And where nearly all jobs lie in one queue it would read all of them to find
-- none of another: an order that only the index has keeps it from that.
create or replace function deferred.__depths(p_max bigint)
returns table (queue text, paused boolean, limited boolean, ready bigint, claimed bigint, delayed bigint, ready_more boolean, delayed_more boolean,
    oldest_ready_s bigint)
language sql stable set enable_bitmapscan = off
as $$
with held as materialized (
    select distinct h.id from deferred.__held h),
due as (
    select x.queue, count(*) as n, min(x.due_at) as since
    from (select h.queue, h.due_at from deferred.__deferred_hot h where h.due_at <= now() and h.fn is not null
          order by h.due_at limit $1 + 1) x
    group by x.queue),
delayed as (
    select x.queue, count(*) as n
    from (select h.queue from deferred.__deferred_hot h where h.due_at > now() and h.fn is not null limit $1 + 1) x
    group by x.queue),
stopped as (
    select (select coalesce(sum(n), 0) > $1 from due) as due, (select coalesce(sum(n), 0) > $1 from delayed) as delayed),
figures as (
    select q.name as queue, q.paused, coalesce(q.max_running, q.rate) is not null as limited, least(r.ready + coalesce(e.n, 0), $1) as ready,
           least(r.claimed + m.claimed, $1) as claimed, least(coalesce(d.n, 0) + m.delayed, $1) as delayed,
           r.more or m.more or s.due or r.ready + coalesce(e.n, 0) > $1 as ready_more, s.delayed or m.more as delayed_more,
           extract(epoch from clock_timestamp() - least(r.since, e.since))::int8 as oldest_ready_s
    from deferred.__deferred_queue q
    cross join stopped s
    left join due e on e.queue = q.name
    left join delayed d on d.queue = q.name
    cross join lateral (
        select least(count(*) filter (where x.free), $1) as ready, least(count(*) filter (where not x.free), $1) as claimed,
               count(*) > $1 as more, min(x.visible_at) filter (where x.free) as since
        from (select d.id is null as free, h.visible_at
              from (select h.id, h.visible_at
                    from deferred.__deferred_hot h
                    where h.queue = q.name and h.due_at is null and not h.limited and h.fn is not null
                    order by h.priority, h.xid, h.id limit $1 + 1) h
              left join held d on d.id = h.id
              union all
              select d.id is null, h.visible_at
              from deferred.__deferred_hot h left join held d on d.id = h.id
              where q.limited_jobs and h.queue = q.name and h.due_at is null and h.limited and h.concurrency_key is null
                and h.fn is not null
              union all
              select d.id is null, h.visible_at
              from deferred.__deferred_hot h left join held d on d.id = h.id
              where q.limited_jobs and h.queue = q.name and h.due_at is null and h.concurrency_key is not null
                and h.fn is not null
              union all
              select true, h.visible_at from deferred.__deferred_hot h where h.queue = q.name and h.fn is null and h.due_at is null
              union all
              select true, h.due_at from deferred.__deferred_hot h where h.queue = q.name and h.fn is null and h.due_at <= now()
              limit $1 + 1) x) r
    cross join lateral (
        select count(*) filter (where x.started_at is not null) as claimed, count(*) filter (where x.started_at is null) as delayed,
               count(*) > $1 as more
        from (select h.started_at from deferred.__deferred_hot h where h.queue = q.name and h.fn is null and h.due_at > now() limit $1 + 1) x) m
    where q.removed_at is null or r.ready + r.claimed + m.claimed + m.delayed + coalesce(d.n, 0) + coalesce(e.n, 0) > 0)
select f.queue, f.paused, f.limited, f.ready, f.claimed, f.delayed, f.ready_more, f.delayed_more, f.oldest_ready_s from figures f
$$;
comment on function deferred.__depths(bigint) is 'ready, delayed and claimed jobs of each queue, as far as it counts';
grant execute on function deferred.__depths(bigint) to deferred_worker, deferred_viewer;
