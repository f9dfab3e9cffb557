-- Part of deferred.__settle(): adds to w the jobs whose time limit for an event has passed.
create or replace function deferred.__settle_times(w deferred.__settling, p_most integer)
returns deferred.__settling
language plpgsql
as $$
begin
    select w.links || array_agg(a.child), w.links_of || array_agg(a.parent), w.dealt + count(*)
    into w.links, w.links_of, w.dealt
    from (select x.child, x.parent from deferred.__deferred_awaited x
          where x.sent is null and x.until <= clock_timestamp()
          order by x.until limit p_most) a;
    return w;
end
$$;
comment on function deferred.__settle_times is
    'part of deferred.__settle(): jobs that have waited for an event as long as they may';
