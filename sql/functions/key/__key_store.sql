-- Stores the hot row of a job whose key has a row in __deferred_key, and takes that row. False: the
-- key is not free. Then nothing is left that others would wait for, not even a deleted row.
--
-- A job that runs may have given its key up (key_until start), and its hot row still has the key.
-- Its row is not written, because an open transaction would hold up the worker that runs it. The
-- next job has NULL in its hot row, and holds the key by its row in __deferred_key.
create or replace function deferred.__key_store(p_id bigint, p_queue text, p_fn text,
    p_priority integer, p_due timestamptz, p_visible timestamptz, p_expires timestamptz,
    p_own_key text, p_limited boolean, p_bounded boolean, p_lane text, p_concurrency integer,
    p_max_attempts integer, p_params_bytes integer, p_key_until_ms bigint, p_now timestamptz,
    p_gone bigint) returns boolean
language plpgsql set search_path = pg_catalog, pg_temp
as $$
begin
    insert into deferred.__deferred_hot (id, queue, fn, priority, due_at, visible_at, expires_at,
        key, limited, bounded, concurrency_key, concurrency, max_attempts, params_bytes)
    values (p_id, p_queue, p_fn, p_priority, p_due, p_visible, p_expires,
        deferred.__key_hot(p_queue, p_own_key), p_limited, p_bounded, p_lane, p_concurrency,
        p_max_attempts, p_params_bytes)
    on conflict (queue, key) where key is not null do nothing;
    if not found then return false; end if;
    if not deferred.__key_take(p_queue, p_own_key, p_id, p_key_until_ms, p_now, p_gone) then
        raise exception using errcode = 'DEF03';
    end if;
    return true;
exception when sqlstate 'DEF03' then
    return false;
end
$$;
comment on function deferred.__key_store is
    'part of deferred.__enqueue_key(): stores a job whose key has a row in __deferred_key';
