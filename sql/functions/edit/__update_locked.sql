-- Changes a job that deferred.__update_lock() has locked. Raises unique_violation if its key is not
-- free in its new queue.
--
-- A job that comes into another lane, or becomes due at another time, gets a new xid. So it lies
-- behind the cursor of its new lane, and no lease holds it. Any other job keeps its place.
create or replace function deferred.__update_locked(h deferred.__deferred_hot, p_changes jsonb,
                                                    p_params json) returns void
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    v_moved boolean;  -- into another queue
    v_laned boolean;  -- into another lane, or to another time
    v_now   timestamptz := clock_timestamp();
    v_key   text collate "C";  -- that the job takes along
    q deferred.__deferred_queue;
    d deferred.__deferred;
    n deferred.__deferred;  -- as it will be
begin
    select * into d from deferred.__deferred x where x.id = h.id;
    n := deferred.__update_new(d, p_changes, p_params);
    v_moved := n.queue <> d.queue;
    v_laned := v_moved or n.priority <> d.priority or p_changes ? 'run_at';
    if v_moved or p_params is not null then
        q := deferred.__enqueue_queue(n.queue, n.fn, n.params,
                                      array[deferred.__actor(), session_user]);
    end if;
    if v_moved then
        q.on_full := 'error';  -- a job that is there is not dropped
        if q.max_length is not null then perform deferred.__queue_full(q, null); end if;
        n.expires_at := coalesce(n.expires_at, v_now + q.ttl_ms * interval '1 millisecond');
    end if;
    update deferred.__deferred x
    set queue = n.queue, fn = n.fn, priority = n.priority, label = n.label, run_at = n.run_at,
        expires_at = n.expires_at, max_attempts = n.max_attempts, timeout_ms = n.timeout_ms,
        params = coalesce(p_params, x.params)
    where x.id = h.id;
    if not v_laned and n.max_attempts is not distinct from d.max_attempts and p_params is null then
        return;
    end if;
    if p_changes ? 'run_at' then
        update deferred.__deferred_wait w set due_at = n.run_at where w.id = h.id;
        if not found or h.due_at is distinct from 'infinity' then
            h.due_at := n.run_at;
            h.visible_at := coalesce(n.run_at, v_now);
        end if;
    end if;
    if v_laned then
        h.limited := deferred.__is_limited(n.queue, n.fn, n.concurrency_key);
        h.unknown := false;
        h.xid := pg_current_xact_id();
    end if;
    -- An old receipt holds no message that is hidden now or becomes a call.
    if h.receipt is not null and (p_changes ? 'run_at' or n.fn is not null) then
        insert into deferred.__deferred_log (job_id, attempt, outcome, final, error, started_at,
                                             receipt)
        values (h.id, h.attempt, 'lost', false, 'not finished before it was visible again',
                h.started_at, h.receipt);
        h.receipt := null;
        h.started_at := null;
    end if;
    if v_moved then
        -- A job with key_until start whose first attempt has started holds its key no more.
        v_key := case when (d.key_until_ms = 0 and h.attempt > 0) is not true
                      then deferred.__own_key(d.created_by, d.key) end;
        h.key := deferred.__key_hot(n.queue, v_key);
    end if;
    update deferred.__deferred_hot x
    set queue = n.queue, key = h.key, priority = n.priority, fn = n.fn,
        max_attempts = n.max_attempts, expires_at = n.expires_at,
        params_bytes = deferred.__job_bytes(x.id, n.params),
        bounded = case when v_moved then q.max_length is not null else x.bounded end,
        due_at = h.due_at, visible_at = h.visible_at, limited = h.limited,
        unknown = h.unknown, xid = h.xid, receipt = h.receipt, started_at = h.started_at,
        attempt_base = case when x.fn is null and n.fn is not null then nullif(x.attempt, 0)
                            else x.attempt_base end
    where x.id = h.id;
    if v_key is not null then perform deferred.__update_key(d, n.queue, v_key); end if;
    if h.limited then perform deferred.__limited_add(n.queue); end if;
    if v_laned and coalesce(h.due_at < v_now + interval '1 minute', true) then
        perform deferred.__wake(n.queue);
    end if;
end
$$;
comment on function deferred.__update_locked is
    'part of deferred.update(): changes a job that is locked';
