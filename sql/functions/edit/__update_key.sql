-- Moves the key of a job to another queue, as deferred.__enqueue_key() takes the key of a new job:
-- behind its hot row. Raises unique_violation if the key is not free there.
create or replace function deferred.__update_key(d deferred.__deferred, p_queue text,
                                                 p_own_key text) returns void
language plpgsql set search_path = pg_catalog, pg_temp
as $$
begin
    if (d.key_until_ms is not null or pg_relation_size('deferred.__deferred_key'::regclass) > 0)
        and not deferred.__key_take(p_queue, p_own_key, d.id, d.key_until_ms) then
        raise unique_violation;
    end if;
    delete from deferred.__deferred_key k
    where k.queue = d.queue and k.key = p_own_key and k.job_id = d.id;
end
$$;
comment on function deferred.__update_key is
    'part of deferred.update(): moves the key of a job to another queue';
