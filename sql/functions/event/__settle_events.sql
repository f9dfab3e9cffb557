-- Part of deferred.__settle(): decides for jobs whether the events have come that they wait for. An
-- edge to an event is met when the event came in time, and has failed when the time is up. Returns
-- w with the edges that are decided. The rows of the jobs in __deferred_wait are locked.
create or replace function deferred.__settle_events(w deferred.__settling, p_child bigint[],
                                                    p_parent bigint[])
returns deferred.__settling
language plpgsql
as $$
begin
    with said as (
        update deferred.__deferred_awaited a set sent = coalesce(f.event, 0)
        from (select x.child, x.parent, deferred.__event_of(x) as event, x.until
              from unnest(p_child, p_parent) e(child, parent)
              join deferred.__deferred_awaited x on x.child = e.child and x.parent = e.parent
              where e.parent < 0 and x.sent is null) f
        where a.child = f.child and a.parent = f.parent
          and (f.event is not null or f.until <= clock_timestamp())
        returning a.child, a.parent, case when a.sent > 0 then 'o' else 'f' end as what)
    select w.children || array_agg(s.child), w.parents || array_agg(s.parent),
           w.whats || array_agg(s.what)
    into w.children, w.parents, w.whats from said s;
    -- A job that waits no more, because it was cancelled or released, has no time limit.
    update deferred.__deferred_awaited a set sent = 0
    where a.ctid = any (array(
        select x.ctid from unnest(w.links, w.links_of) l(child, parent)
        join deferred.__deferred_awaited x on x.child = l.child and x.parent = l.parent
        where x.sent is null and x.until <= clock_timestamp() for update of x skip locked));
    return w;
end
$$;
comment on function deferred.__settle_events is
    'part of deferred.__settle(): which jobs wait no longer for an event';
