create or replace function deferred.__queue_rm(name text) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
    if right($1, 1) = '*' then
        delete from deferred.__deferred_pattern p where p.pattern = $1;
        if not found then
            raise exception using errcode = '42704',
                message = format('pattern ''%s'' does not exist', left($1, 200)),
                hint = 'list the patterns: deferred queue patterns';
        end if;
        update deferred.__deferred_queue q set pattern = ''
        where q.pattern = $1 and q.removed_at is null;
        return;
    end if;
    if $1 = 'default' then
        raise exception using errcode = '55000', message = 'queue ''default'' cannot be removed',
            hint = 'jobs without a queue go there; to empty it: deferred queue clear default';
    end if;
    update deferred.__deferred_queue q
    set (paused, paused_at, paused_by, paused_until, params_max_bytes, visibility_timeout_ms,
         ttl_ms, max_attempts, backoff_floor_ms, backoff_ceiling_ms, backoff_exponent, max_running,
         rate, burst, max_length, on_full, fn, metadata, weight, max_dequeue, acl, age_ms,
         key_rate, key_burst, removed_at)
      = (false, null, null, null, 1048576, null, null, null, null, null, null, null, null, null,
         null, 'error', null, null, 1, null, null, null, null, null, clock_timestamp())
    where q.name = $1 and q.removed_at is null;
    if not found then
        raise exception using errcode = '42704',
            message = format('queue ''%s'' does not exist', left($1, 200)),
            hint = 'list the queues: deferred queue ls';
    end if;
    delete from deferred.__deferred_on_dead o where (o.kind, o.name) = ('queue', $1);
end
$$;
comment on function deferred.__queue_rm(text) is
    'part of "deferred queue rm": forgets the settings of a queue and hides it until a job is '
    'deferred to it; or removes a pattern';
grant execute on function deferred.__queue_rm to deferred_worker;
