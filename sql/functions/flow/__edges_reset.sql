-- Sets the edges of a job to the parents with ids from p_from to p_upto. If a parent is hot, the
-- job waits for it again. Otherwise the log says how the parent ended. If the log row was purged,
-- the stored outcome stays. Of these edges, `was` did not count as met before, and `waits` do not
-- now. A parent that is not watched would report its end to nobody, so a note has
-- deferred.__settle() examine that edge. An event that did not come in time is waited for again, as
-- long as at first. Part of deferred.flow_retry(), under its lock.
create or replace function deferred.__edges_reset(p_child bigint, p_from bigint, p_upto bigint,
                                                 out was bigint, out waits bigint)
language plpgsql set search_path = pg_catalog, pg_temp
as $$
begin
    with seen as materialized (
        select e.parent, e.kind, e.what as was,
               case when h.hot or (e.parent < 0 and e.kind = 'o' and e.what = 'f') then null
                    else coalesce(deferred.__ended_as(e.parent), e.what) end as what, h.watched
        from deferred.__deferred_edge e
        left join lateral (select true as hot, x.watched from deferred.__deferred_hot x
                           where x.id = e.parent offset 0) h on true
        where e.child = p_child and e.parent between p_from and p_upto),
    put as (
        update deferred.__deferred_edge e set what = s.what
        from seen s where e.child = p_child and e.parent = s.parent
            and e.what is distinct from s.what),
    event as (
        update deferred.__deferred_awaited a
        set sent = null, since = clock_timestamp(), until = clock_timestamp() + (a.until - a.since)
        from seen s where a.child = p_child and a.parent = s.parent and a.sent = 0
            and s.what is null),
    look as (
        insert into deferred.__deferred_ended (id, what, upto)
        select p_child, 'l', s.parent from seen s where s.what is null and s.watched is not true)
    select count(*) filter (where s.was is null or not deferred.__edge_met(s.kind, s.was)),
           count(*) filter (where s.what is null or not deferred.__edge_met(s.kind, s.what))
    into was, waits from seen s;
end
$$;
comment on function deferred.__edges_reset is
    'part of deferred.flow_retry(): says of edges of a job what holds now';

