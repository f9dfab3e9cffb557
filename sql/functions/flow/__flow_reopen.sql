-- Part of deferred.flow_retry(): has an opened flow that is run again end again.
--
-- An opened flow of which some jobs are run again ends again, and may be added to until then.
-- Callbacks that have not run wait for that. p_last: all its jobs have been gone through.
create or replace function deferred.__flow_reopen(f deferred.__deferred_flow, p_again boolean,
    p_last boolean, out waiting bigint, out refused bigint, out why text)
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    v_callbacks bigint[];
begin
    waiting := 0;
    refused := 0;
    if p_again then
        update deferred.__deferred_flow x set jobs = null where x.id = f.id and x.jobs is not null;
        insert into deferred.__deferred_flow_open as o (flow, spec, callbacks, closed_at)
        values (f.id, f.spec, f.callbacks, clock_timestamp())
        on conflict on constraint __deferred_flow_open_pkey do update
        set upto = 0, jobs = 0, failed = null, waits_for = null, cancelled = false
        where o.closed_at is not null;
    end if;
    if not p_last then return; end if;
    select x.callbacks into v_callbacks from deferred.__deferred_flow_open x
    where x.flow = f.id and x.closed_at is not null;
    if not found then return; end if;
    select count(*) filter (where a.state = 'waiting'), count(*) filter (where a.state = 'refused'),
           min(a.why) into waiting, refused, why
    from unnest(v_callbacks) j(id) cross join lateral deferred.__flow_again(j.id, 't', null) a;
    insert into deferred.__deferred_ended (id, what, upto) values (f.id, 'z', 0);
end
$$;
