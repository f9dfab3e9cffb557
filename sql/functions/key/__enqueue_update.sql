-- Changes a job that waits, as on_duplicate update asks for. The caller has locked its hot row, and
-- no claim holds it. A new xid puts the job at the tail of its lane, and takes it out of whatever a
-- cursor has stored of it. A job that waits for others keeps waiting, and then for its new time.
create or replace function deferred.__enqueue_update(p_id bigint, p_fn text, p_params json,
    p_params_bytes integer, p_label text, p_priority integer, p_due timestamptz,
    p_visible timestamptz, p_expires timestamptz, p_key text) returns void
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    v_fn    text;
    v_queue text;
    v_wait  boolean;
begin
    update deferred.__deferred d
    set params = p_params, label = p_label, priority = p_priority, run_at = p_due,
        expires_at = p_expires
    where d.id = p_id returning d.fn, d.queue into v_fn, v_queue;
    if v_fn is distinct from p_fn then
        raise exception using errcode = '22023',
            message = format('job %s with key ''%s'' calls function ''%s'' and cannot be updated '
                             'to call ''%s''', p_id, p_key, v_fn, p_fn),
            hint = 'use on_duplicate replace, or a key of its own for each function';
    end if;
    update deferred.__deferred_wait w set due_at = p_due where w.id = p_id;
    v_wait := found;
    update deferred.__deferred_hot h
    set priority = p_priority, params_bytes = p_params_bytes, expires_at = p_expires,
        due_at = case when v_wait and h.due_at = 'infinity' then h.due_at else p_due end,
        visible_at = p_visible, xid = pg_current_xact_id()
    where h.id = p_id;
    if (p_due is null or p_due < clock_timestamp() + interval '1 minute')
       and not deferred.__nobody_waits() then
        perform deferred.__wake(v_queue);
    end if;
end
$$;
comment on function deferred.__enqueue_update is
    'part of deferred.__enqueue_key(): changes params, times, priority and label of a job in place';
