-- One role can make many lanes, each with a job or two of an unknown function. To set these jobs
-- aside lane by lane, as deferred.__claim() does, takes longer. No job of a lane without a place
-- has been handed out. No claim makes the first place of a lane while its guard is locked here.
create or replace function deferred.__lanes_aside(
    p_queues text[], p_priorities integer[], p_known text[])
returns void
language plpgsql
as $$
declare
    v_few     constant integer := 16;  -- a lane with more jobs is left to deferred.__claim()
    v_offered text[];
    v_guards  integer[];
begin
    if p_known is null then
        return;
    end if;
    v_offered := deferred.__functions_offered();
    if v_offered is null then
        return;
    end if;
    v_guards := array(
        select g.n from deferred.__deferred_limit_guard g
        where g.n = any (array(
            select deferred.__lane_guard(l.queue, l.priority)
            from unnest(p_queues, p_priorities) l(queue, priority)
            where not exists (select from deferred.__deferred_cursor p
                              where p.queue = l.queue and p.priority = l.priority)))
        for update skip locked);
    with free as materialized (
        select h.id, h.queue from deferred.__deferred_hot h
        where h.id = any (array(
            select unnest(j.ids)
            from unnest(p_queues, p_priorities) l(queue, priority)
            cross join lateral (
                select array_agg(x.id) as ids,
                       bool_and(x.fn <> all (v_offered || p_known)) as unknown
                from (select h.id, h.fn from deferred.__deferred_hot h
                      where h.queue = l.queue and h.priority = l.priority
                        and deferred.__in_lane(h.due_at, h.limited, h.fn)
                      order by h.queue, h.priority, h.xid, h.id limit v_few + 1) x) j
            where deferred.__lane_guard(l.queue, l.priority) = any (v_guards)
              and not exists (select from deferred.__deferred_cursor p
                              where p.queue = l.queue and p.priority = l.priority)
              and j.unknown and cardinality(j.ids) <= v_few))
        for update skip locked),
    aside as (
        update deferred.__deferred_hot h set limited = true, unknown = true
        from free f where h.id = any (array[f.id]))
    insert into deferred.__deferred_limited (queue)
    select distinct f.queue from free f
    where not exists (select from deferred.__deferred_limited l where l.queue = f.queue);
end
$$;
grant execute on function deferred.__lanes_aside to deferred_worker;
