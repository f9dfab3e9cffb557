-- Part of deferred.__settle(): the next jobs that wait for what has ended, behind those that the
-- note has done already. For an event, `parents` has the edge of each job.
create or replace function deferred.__settle_slice(n deferred.__deferred_ended, p_most integer,
    out children bigint[], out parents bigint[], out jobs integer)
language plpgsql
as $$
declare
    v_event record;
begin
    if n.what = 'e' then
        select v.owner, v.name into v_event from deferred.__deferred_event v where v.id = n.id;
        select array_agg(a.child order by a.child), array_agg(a.parent order by a.child)
        into children, parents
        from (select x.child, x.parent from deferred.__deferred_awaited x
              where x.owner = v_event.owner and x.name = v_event.name and x.sent is null
                and x.child > n.after order by x.child limit p_most) a;
    else
        children := array(select e.child from deferred.__deferred_edge e
                          where e.parent = n.id and e.child > n.after and e.child <= n.upto
                          order by e.child limit p_most);
    end if;
    jobs := coalesce(cardinality(children), 0);
end
$$;
comment on function deferred.__settle_slice is
    'part of deferred.__settle(): jobs that wait for a job or an event';
