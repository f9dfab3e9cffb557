-- Part of deferred.flow_retry(): what ended badly among some jobs of a flow is run again; next:
-- those behind it are left, NULL: none.
--
-- Goes from the first job to the last, so that the parents of a job are set before the job. Each
-- step stands alone. If a caller dies between two steps, the next caller continues with the rest.
--
-- Earlier notes do not count for a job that is hot again, and edges, counts and notes must agree
-- all the time. A lock of __deferred_ended_cursor keeps out deferred.__settle(), which changes
-- them. That function does not wait for the lock, but tries again later. Ends are noted meanwhile,
-- and processed afterwards.
create or replace function deferred.__flow_retry_step(flow bigint, after bigint,
    out ready bigint, out waiting bigint, out refused bigint, out why text, out next bigint)
language plpgsql set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
declare
    v_begun timestamptz := clock_timestamp();
    f       deferred.__deferred_flow;
    v_jobs  bigint[];
    v_first bigint;
    v_last  bigint;
    v_seen  integer := 0;
    v       record;
    v_one   record;
begin
    lock table deferred.__deferred_ended_cursor in exclusive mode;
    select x.* into f from deferred.__deferred_flow x where x.id = flow for update;
    ready := 0;
    waiting := 0;
    refused := 0;
    if not found then return; end if;  -- purged
    if f.failed is not null and exists (select from deferred.__deferred_ended n
                                        where n.id = flow and n.what = 'c') then
        raise exception using errcode = '55006',
            message = format('flow %s is being cancelled because job %s failed', flow, f.failed),
            hint = 'retry the flow when all its jobs have ended';
    end if;
    if after = 0 then
        update deferred.__deferred_flow x set failed = null, retried_at = clock_timestamp()
        where x.id = flow;
        -- As if they had told some already: the failure is no news.
        update deferred.__deferred_ended n set after = 1 from deferred.__deferred_member m
        where f.on_failure = 'cancel' and n.what = 'f' and n.after = 0 and m.job = n.id
          and m.flow = flow;
    end if;
    v_jobs := array(select m.job from deferred.__deferred_member m
                    where m.flow between flow and flow and m.job > after order by m.flow, m.job
                    limit 1000);
    -- One that was retried by hand tells nobody of its end. Whose row is locked has
    -- deferred.__settle() look at it, as deferred.__edges_reset() says.
    update deferred.__deferred_hot h set watched = true
    where h.id = any (array(select x.id from deferred.__deferred_hot x
                            where x.id = any (v_jobs) and x.watched is not true
                              and exists (select from deferred.__deferred_edge e
                                          where e.parent = x.id)
                            order by x.id for update skip locked));
    for v in
        select m.job, m.part,
               case when (select true from deferred.__deferred_edge where parent = m.job limit 1)
                        or (f.on_failure = 'cancel' and m.part is distinct from 't')
                            then true end as watched
        from deferred.__deferred_member m where m.flow between flow and flow
            and m.job = any (v_jobs) order by m.flow, m.job
    loop
        v_first := coalesce(v_first, v.job);
        v_last := v.job;
        -- Callbacks come last, and find their edges to those before them as they are by now.
        if v.part = 't' and v_seen > 0 then
            perform deferred.__flow_callbacks(flow, v_first, v.job - 1);
            v_first := v.job;
            v_seen := 0;
        end if;
        continue when f.opened and v.part = 't';  -- when the others are through
        select a.* into v_one from deferred.__flow_again(v.job, v.part, v.watched) a;
        v_seen := v_seen + (v.part is distinct from 't')::integer;
        ready := ready + (v_one.state is not distinct from 'ready')::integer;
        waiting := waiting + (v_one.state is not distinct from 'waiting')::integer;
        refused := refused + (v_one.state is not distinct from 'refused')::integer;
        why := coalesce(why, v_one.why);
        exit when clock_timestamp() > v_begun + interval '600 milliseconds';
    end loop;
    if v_seen > 0 then perform deferred.__flow_callbacks(flow, v_first, v_last); end if;
    -- By one statement, for which a job that is hot has not ended again. Jobs that did not learn of
    -- the end before wait for the end to come.
    delete from deferred.__deferred_ended n
    where n.what in ('o', 'f', 's', 'n') and n.id = any (v_jobs) and n.id <= v_last
      and exists (select from deferred.__deferred_hot h where h.id = n.id and h.watched);
    perform deferred.__wake(q.queue)
    from (select distinct h.queue from deferred.__deferred_hot h
          where ready > 0 and h.id = any (v_jobs) and h.due_at is null) q;
    next := (select m.job from deferred.__deferred_member m
             where m.flow between flow and flow and m.job > v_last order by m.flow, m.job limit 1);
    next := case when next is not null then v_last end;
    if f.opened then
        select waiting + x.waiting, refused + x.refused, coalesce(why, x.why)
        into waiting, refused, why
        from deferred.__flow_reopen(f, ready + waiting > 0, next is null) x;
    end if;
end
$$;
