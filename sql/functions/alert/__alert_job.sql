-- Stores a job that tells something: what --on-dead names (__notice.sql), send_mail, or
-- deferred-alert, the hook. That name is none that deferred.defer() takes, so nobody but this can
-- have the hook called, with facts of his own.
create or replace function deferred.__alert_job(p_queue text, p_fn text, p_params json,
                                                p_label text, p_timeout_ms bigint,
                                                p_max_attempts integer,
    p_priority smallint default 32767) returns bigint
language plpgsql
as $$
declare
    v_id      bigint := nextval('deferred.__deferred_id_seq');
    v_now     timestamptz := clock_timestamp();
    v_limited boolean;
    v_bounded boolean;
begin
    perform deferred.__queue_there(p_queue);
    v_limited := deferred.__is_limited(p_queue, p_fn, null);
    if v_limited then
        perform deferred.__limited_add(p_queue);
    end if;
    v_bounded := exists (select from deferred.__deferred_queue q
                         where q.name = p_queue and q.max_length is not null);
    insert into deferred.__deferred_hot (id, queue, fn, priority, visible_at, limited, bounded,
                                         max_attempts, params_bytes)
    values (v_id, p_queue, p_fn, p_priority, v_now, v_limited, v_bounded, p_max_attempts,
            deferred.__params_bytes(p_params));
    insert into deferred.__deferred (id, queue, fn, priority, params, label, max_attempts,
                                     timeout_ms, created_at, created_by)
    values (v_id, p_queue, p_fn, p_priority, p_params,
            left(p_label, 1000), p_max_attempts, p_timeout_ms, v_now, 'deferred_owner');
    if not deferred.__nobody_waits() then
        perform deferred.__wake(p_queue);
    end if;
    return v_id;
end
$$;
