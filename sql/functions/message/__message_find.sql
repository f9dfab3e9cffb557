-- Locks messages for one round of deferred.__message_get(), whose requests are p_from and p_counts.
-- Queue i of p_queues gives them p_wanted[i] messages in all, of which they have p_given[i].
-- p_more: how many rows are looked at beyond those wanted.
create or replace function deferred.__message_find(p_queues text[], p_wanted integer[],
    p_given integer[], p_dequeue_max integer[], p_from text[], p_counts integer[], p_more integer,
    p_now timestamptz, out ids bigint[], out items integer[], out receipts bigint[],
    out started timestamptz[], out expired bigint[], out poisoned bigint[],
    out first_id bigint, out last_id bigint)
language plpgsql
as $$
begin
    with queue as materialized (
        select * from unnest(p_queues, p_wanted, p_given, p_dequeue_max)
            as k(name, wanted, given, dequeue_max)
        where k.wanted > k.given),
    visible as materialized (
        select q.*, x.*
        from queue q
        cross join lateral (
            select h.id, h.priority, h.xid, h.visible_at, h.expires_at, h.attempt,
                   h.attempt_base, h.receipt, h.started_at
            from deferred.__deferred_hot h
            where h.queue = q.name and h.fn is null and h.due_at is null
            order by h.queue, h.due_at nulls first, h.priority desc, h.xid, h.id
            limit q.wanted - q.given + p_more for update of h skip locked) x),
    due as materialized (
        select q.*, x.*
        from queue q
        cross join lateral (
            select h.id, h.priority, h.xid, h.due_at as visible_at, h.expires_at, h.attempt,
                   h.attempt_base, h.receipt, h.started_at
            from deferred.__deferred_hot h
            where h.queue = q.name and h.fn is null and h.due_at <= p_now
            order by h.queue, h.due_at nulls first
            limit q.wanted - q.given + p_more for update of h skip locked) x),
    seen as (
        select x.*, case when x.expires_at <= p_now then 'expired'
                         when x.attempt::bigint - coalesce(x.attempt_base, 0) >= x.dequeue_max
                             then 'poisoned' else 'free' end as fate
        from (select * from visible union all select * from due) x),
    turn as materialized (
        select s.*, s.given + row_number() over (partition by s.name, s.fate order by
                        s.priority desc, s.visible_at, s.xid, s.id) as turn
        from seen s),
    slot as materialized (
        select i.n, i.queue, sum(i.count) over w - i.count as after, sum(i.count) over w as upto
        from unnest(p_from, p_counts) with ordinality as i(queue, count, n)
        window w as (partition by i.queue order by i.n))
    select array_agg(t.id order by s.n, t.turn) filter (where s.n is not null),
           array_agg(s.n order by s.n, t.turn) filter (where s.n is not null),
           array_agg(t.receipt order by s.n, t.turn) filter (where s.n is not null),
           array_agg(t.started_at order by s.n, t.turn) filter (where s.n is not null),
           array_agg(t.id) filter (where t.fate = 'expired'),
           array_agg(t.id) filter (where t.fate = 'poisoned'),
           min(t.id), max(t.id)
    into ids, items, receipts, started, expired, poisoned, first_id, last_id
    from turn t left join slot s on t.fate = 'free' and s.queue = t.name and t.turn > s.after
        and t.turn <= least(s.upto, t.wanted);
end
$$;
comment on function deferred.__message_find is
    'part of deferred.__message_get(): messages for its requests, and those to be ended instead';
