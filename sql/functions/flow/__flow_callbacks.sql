-- Sets the edges of a flow's callbacks to some of its jobs, which the caller has just processed.
-- For a callback that still waits, the count is corrected as well. A callback that was skipped or
-- cancelled before it ran is counted later, as one of the last jobs of the flow.
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
    'part of deferred.flow_retry(): counts again which of some jobs callbacks wait for';
