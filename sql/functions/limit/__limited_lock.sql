-- Locks the limits that matter for what a claim has found, a row of __deferred_limit for each. Then
-- it counts what each leaves: jobs that may run besides those that still do, and tokens of its
-- rate. Of the jobs that are listed as running, those count that are still claimed.
--
-- The claim does not wait for a row that another session has locked. A limit that has no row yet
-- gets one. The last statement has a snapshot that was taken under the locks. So it sees all that
-- earlier holders of these locks have done.
create or replace function deferred.__limited_lock(w deferred.__limited)
returns deferred.__limited
language plpgsql
as $$
declare
    v_kinds  text[];
    v_queues text[];
    v_names  text[];
    v_rated  constant boolean := exists (select from deferred.__deferred_queue q
                                         where q.name = any (w.key_queues)
                                           and q.key_rate is not null);
begin
    select array_agg(u.kind), array_agg(u.queue), array_agg(u.name),
           coalesce(array_agg(u.queue) filter (where u.kind = 'queue'), '{}'),
           coalesce(array_agg(u.name) filter (where u.kind = 'function'), '{}')
    into v_kinds, v_queues, v_names, w.queues, w.fns
    from (select 'queue' as kind, q.name as queue, '' as name from deferred.__deferred_queue q
          where coalesce(q.max_running, q.rate) is not null
            and q.name = any (w.lane_queues || w.key_queues)
          union all
          select 'function', '', f.name from deferred.__deferred_function f
          where f.name = any (w.lane_fns) or f.name in (
              select h.fn from unnest(w.key_tids) j(tid)
              join deferred.__deferred_hot h on h.ctid = j.tid)) u;
    -- Keys come first, so that w.key_at is the place of their limit.
    v_kinds := array_fill('key'::text, array[cardinality(w.key_hashes)]) || v_kinds;
    v_queues := w.key_queues || v_queues;
    v_names := w.key_hashes || v_names;
    for v_turn in 1..2 loop
        -- A join may walk over all limits, if the statistics say that they are few. A subquery that
        -- locks is never made a join.
        select array_agg(x.l), array_agg(x.tid), coalesce(bool_or(x.tid is null), false)
        into w.limits, w.limit_tids, w.busy
        from unnest(v_kinds, v_queues, v_names) u(kind, queue, name)
        left join lateral (
            select l, l.ctid as tid from deferred.__deferred_limit l
            where l.kind = u.kind and l.queue = u.queue and l.name = u.name
            for update skip locked) x on true;
        exit when not w.busy or v_turn = 2;
        exit when not deferred.__limited_new(v_kinds, v_queues, v_names);
    end loop;
    w.now := clock_timestamp();  -- later than any holder before us looked at the clock
    select array_agg(row(l.kind, l.queue, l.name, r.still, t.tokens, w.now, w.now)
                         ::deferred.__deferred_limit),
           array_agg(case when l.kind is not null then
               greatest(0, least(1000000000, s.max_running - cardinality(r.still),
                                 floor(t.tokens)))::integer end),
           array_agg(s.rate), array_agg(s.broken),
           least(w.wait_ms, case when bool_or(t.tokens < 1)
               then greatest(1, ceil(min((1 - t.tokens) / s.rate) * 1000)) end)
    into w.limits, w.rooms, w.limit_rates, w.broken, w.wait_ms
    from unnest(w.limits) l
    cross join lateral (
        select array(select h.id from unnest(l.running) i
                     join deferred.__deferred_hot h on h.id = any (array[i])
                     where h.receipt is not null) as still
        offset 0) r  -- or each use would look them up
    left join lateral (
        select q.max_running, q.rate, coalesce(q.burst, 1) as burst, false as broken
        from deferred.__deferred_queue q
        where l.kind = 'queue' and q.name = l.queue
        union all
        select null, q.key_rate, coalesce(q.key_burst, 1), false
        from deferred.__deferred_queue q
        where v_rated and l.kind = 'key' and q.name = l.queue
        union all
        select f.max_running, f.rate, coalesce(f.burst, 1), f.broken_at is not null
        from deferred.__deferred_function f
        where l.kind = 'function' and f.name = l.name) s on true
    cross join lateral (
        select deferred.__tokens(l.tokens, l.tokens_at, s.rate, s.burst, w.now) as tokens) t;
    return w;
end
$$;
grant execute on function deferred.__limited_lock to deferred_worker;
