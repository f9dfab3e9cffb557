-- From the first job to the last, so that whatever a job waits for is put right before it. A step
-- stands alone: whoever dies between two has begun some of the flow again, and goes on with the
-- rest.
--
-- What was noted of ends before is void for a job that is hot again, and edges, counts and notes
-- have to agree all the time. deferred.__settle(), which changes them, is kept out by a lock on its
-- table: it does not wait, but comes again. Nobody else is: ends are noted meanwhile, and told
-- afterwards.
create or replace function deferred.__flow_retry_step(flow bigint, after bigint,
    out ready bigint, out waiting bigint, out refused bigint, out why text, out next bigint)
language plpgsql set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
declare
    v_most  constant integer := 1000;
    v_begun timestamptz := clock_timestamp();
    f       deferred.__deferred_flow;
    v_jobs  bigint[];
    v_first bigint;
    v_last  bigint;
    v_seen  integer := 0;
    v       record;
    v_one   record;
    v_queue text;
begin
    lock table deferred.__deferred_told in exclusive mode;
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
                    limit v_most);
    -- One that was retried by hand tells nobody of its end. Whose row is locked has
    -- deferred.__settle() look at it, as deferred.__edges_anew() says.
    update deferred.__deferred_hot h set watched = true
    where h.id = any (array(select x.id from deferred.__deferred_hot x
                            where x.id = any (v_jobs) and x.watched is not true
                              and exists (select from deferred.__deferred_edge e
                                          where e.parent = x.id)
                            order by x.id for update skip locked));

    for v in
        select m.job, m.part,
               case when exists (select from deferred.__deferred_edge e where e.parent = m.job)
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
        if v_one.state = 'ready' then
            ready := ready + 1;
        elsif v_one.state = 'waiting' then
            waiting := waiting + 1;
        elsif v_one.state = 'refused' then
            refused := refused + 1;
            why := coalesce(why, v_one.why);
        end if;
        exit when clock_timestamp() > v_begun + interval '600 milliseconds';
    end loop;
    if v_seen > 0 then
        perform deferred.__flow_callbacks(flow, v_first, v_last);
    end if;
    -- By one statement, for which a job that is hot has not ended again. Who was not told yet waits
    -- for the end to come.
    delete from deferred.__deferred_ended n
    where n.what in ('o', 'f', 's', 'n') and n.id = any (v_jobs) and n.id <= v_last
      and exists (select from deferred.__deferred_hot h where h.id = n.id and h.watched);
    for v_queue in select distinct h.queue from deferred.__deferred_hot h
        where ready > 0 and h.id = any (v_jobs) and h.due_at is null loop
        perform deferred.__wake(v_queue);
    end loop;
    next := (select m.job from deferred.__deferred_member m
             where m.flow between flow and flow and m.job > v_last order by m.flow, m.job limit 1);
    next := case when next is not null then v_last end;
    if not f.opened then return; end if;
    -- One of which some is run again ends anew, and may be added to until then; callbacks that have
    -- not run wait for that.
    if ready + waiting > 0 then
        update deferred.__deferred_flow x set jobs = null where x.id = flow and x.jobs is not null;
        insert into deferred.__deferred_flow_open as o (flow, spec, callbacks, closed_at)
        values (flow, f.spec, f.callbacks, clock_timestamp())
        on conflict on constraint __deferred_flow_open_pkey do update
        set upto = 0, jobs = 0, failed = null, waits_for = null, cancelled = false
        where o.closed_at is not null;
    end if;
    if next is null then
        select x.callbacks into v_jobs from deferred.__deferred_flow_open x
        where x.flow = flow and x.closed_at is not null;
        if found then
            select waiting + count(*) filter (where a.state = 'waiting'),
                   refused + count(*) filter (where a.state = 'refused'), coalesce(why, min(a.why))
            into waiting, refused, why
            from unnest(v_jobs) j(id) cross join lateral deferred.__flow_again(j.id, 't', null) a;
            insert into deferred.__deferred_ended (id, what, upto) values (flow, 'z', 0);
        end if;
    end if;
end
$$;
comment on function deferred.__flow_retry_step is
    'part of deferred.flow_retry(): what ended badly among some jobs of a flow is run again; '
    'next: those behind it are left, NULL: none';
