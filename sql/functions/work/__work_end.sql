-- Records an attempt without success of a program that claims by SQL. It does what job_finish.sql
-- and job_retry.sql do. p_delay_ms NULL: by the back-off of the job. Returns when the job is due
-- again; NULL: it has ended.
create or replace function deferred.__work_end(
    p_id bigint, p_receipt bigint, p_outcome text, p_error text, p_delay_ms bigint,
    p_final boolean)
returns timestamptz
language plpgsql
as $$
declare
    l        deferred.__deferred_lease := deferred.__work_lease(p_id, p_receipt, true);
    h        deferred.__deferred_hot;
    d        record;
    v_now    constant timestamptz := clock_timestamp();
    v_counts boolean;
    v_delay  bigint := p_delay_ms;
    v_due    timestamptz;
begin
    select x.* into h from deferred.__deferred_hot x
    where x.id = p_id and pg_visible_in_snapshot(x.xid, l.snap) for update;
    if not found then
        perform deferred.__refuse_receipt(p_id, p_receipt);
    end if;
    select coalesce(j.max_attempts, q.max_attempts, deferred.__max_attempts()) as max_attempts,
           coalesce(j.backoff_floor_ms, q.backoff_floor_ms) as floor_ms,
           coalesce(j.backoff_ceiling_ms, q.backoff_ceiling_ms) as ceiling_ms,
           coalesce(j.backoff_exponent, q.backoff_exponent) as exponent
    into d from deferred.__call(p_id, p_id, p_id) j
    left join deferred.__deferred_queue q on q.name = h.queue;
    h.attempt := least(h.attempt, 2147483646) + 1;
    h.attempt_base := coalesce(h.attempt_base, 0);
    v_counts := p_outcome <> 'snoozed' and not deferred.__moved_on(p_id, h.attempt);
    p_final := p_final or (v_counts and h.attempt - h.attempt_base >= d.max_attempts);
    if p_final then
        delete from deferred.__deferred_hot x where x.id = p_id;
        if h.watched then
            perform deferred.__note_end(p_id, 0, p_outcome);
        end if;
    else
        if v_delay is null then
            v_delay := deferred.__jitter_ms(deferred.__backoff_ms(
                d.floor_ms, d.ceiling_ms, d.exponent, h.attempt - h.attempt_base));
        end if;
        v_due := v_now + v_delay * interval '1 millisecond';
        update deferred.__deferred_hot x
        set receipt = null, worker = null, suspect = false, attempt = h.attempt,
            attempt_base = h.attempt_base + (not v_counts)::integer,
            xid = pg_current_xact_id(), due_at = case when v_delay > 0 then v_due end,
            visible_at = v_due
        where x.id = p_id;
    end if;
    delete from deferred.__deferred_progress p where p.job_id = p_id;
    insert into deferred.__deferred_log (job_id, attempt, outcome, final, error, started_at,
                                         finished_at, worker, receipt, wait_us, run_us)
    values (p_id, h.attempt, p_outcome, p_final, p_error, l.claimed_at, v_now, l.worker, l.receipt,
            deferred.__us(h.visible_at, l.claimed_at), deferred.__us(l.claimed_at, v_now));
    perform deferred.__work_close(l, p_id);
    if v_delay < 60000 then
        perform deferred.__wake(h.queue);
    end if;
    return v_due;
end
$$;
