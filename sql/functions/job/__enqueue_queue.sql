-- roles: the one that defers, and others whose rows of __deferred_grant count for it.
create or replace function deferred.__enqueue_queue(queue text, fn text, params json, roles name[])
returns deferred.__deferred_queue
language plpgsql
as $$
#variable_conflict use_variable
declare
    q deferred.__deferred_queue;
begin
    -- NULL for a role without rows, which may defer anything.
    if not (select bool_or((g.queue is null or g.queue = queue)
                           and (g.fn is null or (g.fn = fn) is true))
            from deferred.__deferred_grant g where g.role = any (roles)) then
        raise exception using errcode = '42501',
            message = format('role ''%s'' may not defer %s to queue ''%s''', roles[1],
                             coalesce('''' || fn || '''', 'messages'), queue),
            hint = 'an administrator allows it with a row in the table '
                   'deferred.__deferred_grant, see deferred-queue(1)';
    end if;
    select * into q from deferred.__deferred_queue x where x.name = queue;
    if not found or q.removed_at is not null then
        perform deferred.__name_check('queue', queue);
        perform deferred.__queue_add(queue, roles[1]);
        -- A pattern may have given it settings.
        select * into q from deferred.__deferred_queue x where x.name = queue;
        q.params_max_bytes := coalesce(q.params_max_bytes, 1048576);
    end if;
    if octet_length(params::text) > q.params_max_bytes then
        raise exception using errcode = '54000',
            message = format('params of function ''%s'' have %s bytes, but queue ''%s'' allows %s',
                             fn, octet_length(params::text), queue, q.params_max_bytes),
            hint = 'store the data elsewhere and pass a reference, or raise params_max_bytes of '
                   'the queue';
    end if;
    if octet_length(params::text) > 512 and not deferred.__depth_ok(params) then
        raise exception using errcode = '54000',
            message = format('params of function ''%s'' nest deeper than 512 levels', fn),
            hint = 'pass nested data as text';
    end if;
    return q;
end
$$;
comment on function deferred.__enqueue_queue is
    'refuses what may not go into a queue, adds the queue if it does not exist, and returns it';
