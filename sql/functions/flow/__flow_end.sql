-- Part of deferred.__settle(): ends a closed flow if all its jobs have ended. If `again` is true,
-- the caller calls this again, and if `put_off` is true as well, later. The callbacks returned wait
-- no longer. Their rows in __deferred_wait get the values of `unmet` and `failure`.
--
-- Flows that are opened, filled and closed.
--
-- Any number of transactions add jobs until the flow has ended: until it was closed and all its
-- jobs have ended. No row counts the jobs, because all who add or end jobs would wait for its lock.
-- Once the flow is closed, this reads its jobs once, in the order of their ids. All jobs up to
-- `upto` have ended. The first later job that has not ended is watched
-- (sql/functions/flow/__settle.sql), and its end causes the next call.
--
-- No job is missed. Every transaction that adds a job locks the flow's row before the id is drawn,
-- and holds the lock to its end. This function locks the row against all of them, and then reads
-- jobs. A job that it does not see is added later, with an id above all that it sees, and so above
-- `upto`.
--
-- Callbacks are jobs from the close on, and wait for no edge: __deferred_wait.waits is 1 until this
-- has counted for them.
create or replace function deferred.__flow_end(p_flow bigint, p_most integer, out looked integer,
    out again boolean, out put_off boolean, out callbacks bigint[], out unmet bigint[],
    out failure bigint[])
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    o      deferred.__deferred_flow_open;
    f      deferred.__deferred_flow;
    v_some bigint[];
    v_mine bigint[];
    v_hot  bigint;
    v_part "char";
begin
    looked := 0;
    again := false;
    put_off := false;
    select x.* into o from deferred.__deferred_flow_open x
    where x.flow = p_flow for update skip locked;
    if not found or o.closed_at is null then
        put_off := o.flow is null and exists (select from deferred.__deferred_flow_open x
                                              where x.flow = p_flow);
        return;
    end if;
    put_off := exists (select from deferred.__deferred_flow_retry r
                       where r.flow = p_flow and r.ended_at is null);
    if put_off then return; end if;
    select x.* into f from deferred.__deferred_flow x where x.id = p_flow;
    select coalesce(array_agg(m.job), '{}'),
           coalesce(array_agg(m.job) filter (where m.part is distinct from 't'), '{}')
    into v_some, v_mine
    from (select x.job, x.part from deferred.__deferred_member x
          where x.flow between p_flow and p_flow and x.job > o.upto order by x.flow, x.job
          limit p_most) m;
    looked := cardinality(v_some);
    select min(h.id) into v_hot from deferred.__deferred_hot h where h.id = any (v_mine);
    if v_hot is not null and (o.cancelled or (f.failed is not null and f.on_failure = 'cancel'))
    then
        -- Of a transaction that was open when the others were cancelled.
        v_part := (select m.part from deferred.__deferred_member m where m.job = v_hot);
        if o.cancelled or (v_part is null and v_hot <> f.failed) then
            perform from deferred.__deferred_hot h where h.id = v_hot for update skip locked;
            if found then
                perform deferred.__cancel(v_hot, 'cancelled' || case when o.cancelled then '' else
                    format(': job %s of its flow failed', f.failed) end);
            end if;
        end if;
    end if;
    if v_hot is not null then
        perform from deferred.__deferred_hot h where h.id = v_hot for update skip locked;
        if found then
            update deferred.__deferred_hot h set watched = true
            where h.id = v_hot and h.watched is not true;
        else
            put_off := exists (select from deferred.__deferred_hot h where h.id = v_hot);
            again := not put_off;
        end if;
    end if;
    select o.jobs + count(*),
           coalesce(o.failed, min(j.id) filter (where deferred.__ended_as(j.id) in ('f', 's')))
    into o.jobs, o.failed from unnest(v_mine) j(id) where j.id < v_hot or v_hot is null;
    o.upto := coalesce(v_hot - 1, v_some[looked], o.upto);
    if v_hot is not null or looked = p_most then
        again := again or v_hot is null;
        update deferred.__deferred_flow_open x
        set upto = o.upto, jobs = o.jobs, failed = o.failed,
            waits_for = case when not again and not put_off then v_hot end where x.flow = p_flow;
        return;
    end if;
    select array_agg(c.id order by c.id), array_agg(case when c.condition = 'ok' then o.failed end
                                                    order by c.id),
           array_agg(case when c.condition = 'failed' then coalesce(o.failed, 0) end order by c.id)
    into callbacks, unmet, failure
    from (select u.id, coalesce(o.spec->'then'->(u.n::integer - 1)->>'on', 'ok') as condition
          from unnest(o.callbacks) with ordinality u(id, n)) c;
    update deferred.__deferred_flow x
    set jobs = o.jobs + coalesce(cardinality(o.callbacks), 0), spec = o.spec,
        callbacks = o.callbacks where x.id = p_flow;
    delete from deferred.__deferred_flow_open x where x.flow = p_flow;
end
$$;
