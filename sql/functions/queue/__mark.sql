-- Jobs deferred before a limit was set carry no mark yet: a claim that meets one marks it instead
-- of taking it. This does the same ahead of claims, for some ids on; next_id NULL: all were looked
-- at. Jobs that run are counted from then on.
create or replace function deferred.__mark(from_id bigint, batch integer, out marked bigint,
                                           out next_id bigint)
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_queues text[];
    v_limited text[];
    v_lane   record;
begin
    -- A claim in progress has read these jobs without the mark, and its lease is not visible yet.
    -- This waits for that claim, and the next claim waits for this. Otherwise a claim within the
    -- limits would take the same jobs.
    for v_lane in
        select distinct s.queue, s.priority
        from (select h.* from deferred.__deferred_hot h where h.id >= from_id order by h.id
              limit batch) s
        where not s.limited and s.due_at is null and s.fn is not null
          and deferred.__is_limited(s.queue, s.fn, s.concurrency_key)
        order by s.queue, s.priority
    loop
        for v_try in 1 .. 20 loop
            perform from deferred.__deferred_cursor p where p.queue = v_lane.queue
                and p.priority = v_lane.priority
            order by p.queue desc, p.priority desc, p.seq desc limit 1 for update;
            exit when found;
            perform from deferred.__deferred_cursor p where p.queue = v_lane.queue
                and p.priority = v_lane.priority;
            if not found then  -- the first claim of the lane may be under way
                perform from deferred.__deferred_limit_guard g
                where g.n = any (array[deferred.__lane_guard(v_lane.queue, v_lane.priority)])
                for update;
            end if;
        end loop;
    end loop;
    with seen as materialized (
        select h.id, h.limited, h.bounded, h.unknown
            or deferred.__is_limited(h.queue, h.fn, h.concurrency_key) as to_limit,
               exists (select from deferred.__deferred_queue q
                       where q.name = h.queue and q.max_length is not null) as to_bound
        from deferred.__deferred_hot h where h.id >= from_id order by h.id limit batch),
    row as materialized (
        select h.id, s.to_limit, s.to_bound, l.receipt, l.worker
        from seen s join deferred.__deferred_hot h on h.id = s.id
        left join lateral deferred.__lease_of(h.id, h.xid) l on h.fn is not null and s.to_limit
            and not h.limited
        where (s.to_limit <> h.limited or s.to_bound <> h.bounded)
          -- One that is claimed under limits keeps its mark: it is none of its lane.
          and (s.to_limit or not h.limited or h.receipt is null)
        for update of h skip locked),
    done as (
        update deferred.__deferred_hot h
        set limited = r.to_limit, bounded = r.to_bound,
            xid = case when h.limited and not r.to_limit then pg_current_xact_id() else h.xid end,
            receipt = coalesce(h.receipt, r.receipt), worker = coalesce(h.worker, r.worker)
        from row r where h.id = r.id
        returning h.id, h.queue, h.fn, h.concurrency_key, h.limited, h.fn is not null
            and h.receipt is not null as runs),
    stand as (
        insert into deferred.__deferred_limit (kind, queue, name, running)
        select r.kind, r.queue, r.name, array_agg(r.id)
        from (select 'queue' as kind, d.queue, '' as name, d.id from done d
              where d.runs and d.limited
              union all select 'function', '', d.fn, d.id from done d
                  where d.runs and d.limited and d.fn is not null
              union all select 'key', d.queue, hashtextextended(d.concurrency_key, 0)::text, d.id
                  from done d
                        where d.runs and d.concurrency_key is not null) r
        group by r.kind, r.queue, r.name order by r.kind, r.queue, r.name
        on conflict (kind, queue,
                     name) do update set running = __deferred_limit.running || excluded.running)
    select (select count(*) from done), (select array_agg(distinct d.queue) from done d),
           (select array_agg(distinct d.queue) from done d where d.limited),
           (select max(s.id) + 1 from seen s having count(*) = batch)
    into marked, v_queues, v_limited, next_id;
    perform deferred.__limited_add(q) from unnest(v_limited) q;
    -- A worker may have looked among those without the mark before, and among those with it after
    -- this.
    perform deferred.__wake(q) from unnest(v_queues) q;
end
$$;
comment on function deferred.__mark is
    'part of "deferred queue set": marks jobs that limits are about, takes the mark from others';
grant execute on function deferred.__mark to deferred_worker, deferred_operator;
