-- Chooses up to p_n jobs of what a claim has found, as the limits that it has locked allow. Of jobs
-- with a rate it takes p_rated at most.
--
-- Each cut leaves fewer jobs, so no limit is exceeded. The next claim takes jobs that were cut.
-- Queues share the claim by their weights, from a random start.
create or replace function deferred.__limited_choose(
    w deferred.__limited, p_n integer, p_rated integer, p_seed bigint)
returns deferred.__limited
language plpgsql
as $$
begin
    with lim as materialized (  -- besides those of keys, which are found by their place
        select l.* from rows from (unnest(w.limits), unnest(w.rooms), unnest(w.limit_rates),
                                   unnest(w.broken))
            l(kind, queue, name, running, tokens, tokens_at, used_at, room, rate, broken)
        where l.kind <> 'key'),
    -- Arrays, because the session has no hash joins. With 450 functions that have limits, nested
    -- loops would take a fifth of the claim.
    fn_lim as materialized (
        select array_agg(l.name) as names, array_agg(l.room) as rooms, array_agg(l.rate) as rates,
               array_agg(l.broken) as broken
        from lim l where l.kind = 'function'),
    -- A limit that is in force but not ours closes what it is about.
    open_queue as materialized (
        select u.name, l.room, l.rate, q.visibility_timeout_ms, q.max_attempts,
               coalesce(q.weight, 1) as weight,
               -ln(((hashtextextended(u.name, p_seed) & 9007199254740991) + 1)::float8
                   / 9007199254740992::float8) as start
        from (select distinct unnest(w.lane_queues || w.key_queues) as name) u
        left join deferred.__deferred_queue q on q.name = u.name
        left join lim l on l.kind = 'queue' and l.queue = u.name
        where l.room is not null or u.name <> all (w.queues)),
    open_lane as materialized (
        select g.queue, g.fn, least(q.rate, f.rates[g.at]) as rate, f.rooms[g.at] as fn_room,
               least(p_n, q.room, f.rooms[g.at]) as room, coalesce(f.broken[g.at], false) as broken
        from fn_lim f
        cross join lateral (select x.queue, x.fn, array_position(f.names, x.fn) as at
                            from unnest(w.lane_queues, w.lane_fns) x(queue, fn)) g
        join open_queue q on q.name = g.queue
        where f.rooms[g.at] is not null or g.fn <> all (w.fns)),
    cand as (
        select x.tid, x.id, x.priority, g.queue, g.fn, null::integer as at, g.rate, g.fn_room
        from open_lane g
        cross join lateral (
            select y.ctid as tid, y.id, y.priority from deferred.__deferred_hot y
            where y.queue = g.queue and y.fn = g.fn and y.limited and y.concurrency_key is null
              and y.due_at is null and y.receipt is null and not y.unknown
            order by y.unknown, y.queue, y.fn, y.priority desc, y.id
            limit g.room) x
        where not g.broken
        union all
        select x.tid, x.id, x.turn, g.queue, g.fn, null, g.rate, g.fn_room
        from open_lane g
        cross join lateral deferred.__limited_trial(g.queue, g.fn, g.room, p_seed) x
        where g.broken and g.room > 0
        union all
        select k.tid, k.id, k.priority, k.queue, k.fn, k.key_at,
               least(q.rate, f.rates[k.at], w.limit_rates[k.key_at]), f.rooms[k.at]
        from fn_lim f
        cross join lateral (
              select h.ctid as tid, h.id, h.priority, h.queue, h.fn, j.key_at,
                     array_position(f.names, h.fn) as at,
                     least(coalesce(h.concurrency, 1) - cardinality((w.limits[j.key_at]).running),
                           w.rooms[j.key_at]) as free,
                     row_number() over (partition by j.key_at order by h.id) as turn
              from unnest(w.key_tids, w.key_at) j(tid, key_at)
              join deferred.__deferred_hot h on h.ctid = j.tid
              where h.due_at is null and h.receipt is null
                and h.queue = w.key_queues[j.key_at] and w.rooms[j.key_at] is not null) k
        join open_queue q on q.name = k.queue
        where k.turn <= k.free and (f.rooms[k.at] is not null or k.fn <> all (w.fns))),
    by_fn as (
        select c.*, row_number() over (partition by c.fn order by c.priority desc, c.id) as turn
        from cand c),
    by_queue as (
        select c.tid, c.id, c.queue, c.at, c.rate,
               row_number() over (partition by c.queue order by c.priority desc, c.id) as turn
        from by_fn c where c.turn <= coalesce(c.fn_room, 2147483647)),
    shared as (
        select c.tid, c.id, c.at, c.rate, q.visibility_timeout_ms, q.max_attempts,
               (c.turn - 1 + q.start) / q.weight as turn
        from by_queue c join open_queue q on q.name = c.queue
        where c.turn <= coalesce(q.room, p_n))
    select array_agg(p.tid), array_agg(p.at), array_agg(p.rate),
           array_agg(p.visibility_timeout_ms), array_agg(p.max_attempts),
           count(*) + w.busy::integer
    into w.tids, w.job_keys, w.rates, w.lease_ms, w.max_attempts, w.seen
    from (select s.* from (
              select x.*, row_number() over (partition by x.rate is null
                                             order by x.turn, x.id) as nth from shared x) s
          where s.rate is null or s.nth <= p_rated
          order by s.turn, s.id limit p_n) p;
    return w;
end
$$;
grant execute on function deferred.__limited_choose to deferred_worker;
