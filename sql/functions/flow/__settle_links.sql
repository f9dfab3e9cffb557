-- Part of deferred.__settle(): has jobs wait for jobs that were there before them.
--
-- A job deferred to wait for jobs that were there already locks none of them. Otherwise an open
-- transaction would hold up the worker that ends one. It leaves a note (l), and is linked here.
-- The log says how a parent ended before that. A parent whose row is locked is looked at again.
-- Events are parents as well: deferred.__settle_events().
create or replace function deferred.__settle_links(w deferred.__settling)
returns deferred.__settling
language plpgsql
as $$
declare
    v_child  bigint[];
    v_parent bigint[];
    v_free   bigint[];
    v        record;
begin
    select array_agg(e.child), array_agg(e.parent) into v_child, v_parent
    from unnest(w.links, w.links_of) l(child, parent)
    join deferred.__deferred_wait t on t.id = l.child and t.waits > 0 and t.unmet is null
    cross join lateral (
        select x.child, x.parent from deferred.__deferred_edge x
        where l.parent is null and x.child = l.child and x.what is null
        union all
        select x.child, x.parent from deferred.__deferred_edge x
        where x.child = l.child and x.parent = l.parent and x.what is null) e;
    w := deferred.__settle_events(w, v_child, v_parent);
    v_free := array(select h.id from deferred.__deferred_hot h
                    where h.id = any (array(select distinct p from unnest(v_parent) p))
                    order by h.id for update skip locked);
    update deferred.__deferred_hot h set watched = true
    where h.id = any (v_free) and h.watched is not true;
    -- By now a parent is marked, or locked by somebody, or it is gone and its end is in the log.
    for v in
        select e.child, e.parent, h.id is not null as hot,
               case when h.id is null
                    then coalesce(deferred.__ended_as(e.parent)::text, 's') end as what
        from unnest(v_child, v_parent) e(child, parent)
        left join deferred.__deferred_hot h on h.id = e.parent
        where e.parent > 0 and e.parent <> all (v_free)
    loop
        if v.hot then
            w.again := w.again || v.child;
            w.again_of := w.again_of || v.parent;
        else
            w.children := w.children || v.child;
            w.parents := w.parents || v.parent;
            w.whats := w.whats || v.what;
        end if;
    end loop;
    return w;
end
$$;
