-- Retries one member of a flow. The member failed, or was cancelled or skipped while it waited. If
-- one of its parents is to run, the member waits again. If a parent has ended in a way that its
-- edge does not accept, the member stays as it is. Otherwise it runs. Callbacks that ran are done.
create or replace function deferred.__flow_again(p_id bigint, p_part "char", p_watched boolean,
                                                 out state text, out why text)
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    v_hot boolean;
    v_due timestamptz;
    w     deferred.__deferred_wait;
begin
    select true, h.due_at into v_hot, v_due from deferred.__deferred_hot h where h.id = p_id;
    if v_hot is not true then
        if deferred.__ended_as(p_id) = 'o'
           or (p_part = 't' and exists (select from deferred.__deferred_log l
                                        where l.job_id = p_id and l.attempt > 0)) then return;
                                        end if;
        -- As deferred.retry() does: of two who retry it the second sees what became of the first.
        update deferred.__deferred x set label = x.label where x.id = p_id;
        if exists (select from deferred.__deferred_hot h where h.id = p_id)
            or deferred.__ended_as(p_id) = 'o' then return; end if;
        if deferred.__ended_as(p_id) is null then
            state := 'refused';
            why := format('job %s ended so long ago that its attempts were purged', p_id);
            return;
        end if;
    elsif v_due is distinct from 'infinity' or not exists (select from deferred.__deferred_wait x
        where x.id = p_id) then
        return;
    end if;
    -- Those of a callback, which may be a million, are gone through with the jobs they lead to.
    if p_part is distinct from 't' then
        perform deferred.__edges_reset(p_id, -1000, p_id);  -- events are below 0
    end if;
    select x.* into w from deferred.__wait_count(p_id) x;
    if w.id is null and p_part = 't' then
        w.waits := 1;  -- of a flow that was opened: for its end
    end if;
    if v_hot is not true then
        if w.unmet is not null or (w.waits = 0 and w.failure = 0) then
            -- of one that was cancelled while it waited
            delete from deferred.__deferred_wait x where x.id = p_id;
            return;
        end if;
        perform deferred.__revive(p_id, case when w.waits > 0 then 'infinity'::timestamptz end,
                                  p_watched);
        state := case when w.waits > 0 then 'waiting' else 'ready' end;
    end if;
    if state = 'ready' then
        delete from deferred.__deferred_wait x where x.id = p_id;
    else
        insert into deferred.__deferred_wait as x (id, waits, unmet, failure)
        values (p_id, w.waits, w.unmet, w.failure)
        on conflict (id) do update set waits = w.waits, unmet = w.unmet, failure = w.failure;
        if w.waits = 0 or w.unmet is not null then
            insert into deferred.__deferred_ended (id, what, upto) values (p_id, 'l', 0);
        end if;
    end if;
exception
    when unique_violation then
        state := 'refused';
        why := sqlerrm;
    when lock_not_available then
        state := 'refused';
        why := format('job %s, or one with its key, is in a transaction that is still open', p_id);
end
$$;
comment on function deferred.__flow_again is
    'part of deferred.flow_retry(): one job of the flow. state: ready, waiting or refused, and '
    'why; NULL: it stays as it is';
