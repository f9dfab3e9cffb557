-- Edges of the callbacks of a flow to some of its jobs, which have just been gone through. One that
-- still waits has its count put right with them; one that was skipped or cancelled before it ran is
-- counted when its turn comes, as the last of the flow.
create or replace function deferred.__flow_callbacks(p_flow bigint, p_first bigint,
                                                     p_last bigint) returns void
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    v_job  bigint;
    v_edge record;
begin
    for v_job in
        select m.job from (select x.job, x.part from deferred.__deferred_member x
                           where x.flow between p_flow and p_flow order by x.flow desc, x.job desc
                           limit 8) m
        where m.part = 't' order by m.job
    loop
        select e.* into v_edge from deferred.__edges_reset(v_job, p_first, p_last) e;
        update deferred.__deferred_wait w
        set waits = w.waits - v_edge.was + v_edge.waits,
            unmet = case when w.unmet between p_first and p_last then null else w.unmet end,
            failure = case when w.failure is not null then coalesce((
                select e.parent from deferred.__deferred_edge e
                where e.child = v_job and e.what in ('f', 's') order by e.parent limit 1), 0) end
        where w.id = v_job;
    end loop;
end
$$;
comment on function deferred.__flow_callbacks is
    'part of deferred.flow_retry(): callbacks count anew what they wait for among some jobs';
