-- A worker that has met no unknown function tries one job of those set aside. So its runner tells
-- which functions it has. The lane of that job is the first that the claim looks at.
create or replace function deferred.__limited_tried(
    w deferred.__limited, p_queues text[], p_seed bigint)
returns deferred.__limited
language plpgsql
as $$
declare
    v_head record;
begin
    select h.id, h.queue, h.fn into v_head
    from unnest(coalesce(p_queues, array[null])) s(queue)
    cross join lateral (
        select h.id, h.queue, h.fn from deferred.__deferred_hot h
        where h.unknown and h.limited and h.due_at is null and h.concurrency_key is null
          and h.queue >= coalesce(s.queue, '') and h.queue <= coalesce(s.queue, '~')
        order by h.unknown, h.queue, h.fn, h.priority desc, h.id
        limit 1 for update skip locked) h
    where not exists (select from deferred.__deferred_queue q
                      where q.name = h.queue and deferred.__is_paused(q))
    order by hashtextextended(h.queue, hashint8extended(p_seed, 0)) limit 1;
    if found then
        update deferred.__deferred_hot h set unknown = false where h.id = v_head.id;
        w.lane_queues := array[v_head.queue];
        w.lane_fns := array[v_head.fn];
    end if;
    return w;
end
$$;
grant execute on function deferred.__limited_tried to deferred_worker;
