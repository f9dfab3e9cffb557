-- A job that has ended becomes hot again, with all its attempts and options. The caller has
-- locked its row in __deferred: otherwise two retries at once would both find the job ended. The
-- failure of a job of a flow with on_failure "cancel" must be noted, so such a job is watched.
-- False: the job is hot already.
create or replace function deferred.__revive(p_id bigint, p_due timestamptz,
                                             p_watched boolean) returns boolean
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    d         deferred.__deferred;
    v_attempt integer;
    v_new     boolean;
    v_key     text collate "C";
begin
    select * into d from deferred.__deferred x where x.id = p_id;
    select coalesce(max(l.attempt), 0) into v_attempt from deferred.__deferred_log l
    where l.job_id = p_id;
    -- The first attempt of a job with key_until start has started already.
    if d.key is not null and (d.key_until_ms = 0 and v_attempt > 0) is not true then
        v_key := deferred.__own_key(d.created_by, d.key);
    end if;
    insert into deferred.__deferred_hot (id, queue, fn, priority, visible_at, attempt, attempt_base,
                                         key, limited, bounded,
        concurrency_key, concurrency, due_at, watched, max_attempts, params_bytes)
    values (d.id, d.queue, d.fn, d.priority, clock_timestamp(), v_attempt, v_attempt,
            v_key,
        deferred.__is_limited(d.queue, d.fn, d.concurrency_key),
        exists (select from deferred.__deferred_queue q where q.name = d.queue
                and q.max_length is not null),
        deferred.__own_key(d.created_by, d.concurrency_key), d.concurrency, p_due,
        coalesce(p_watched,
            case when exists (select from deferred.__deferred_member m
                              join deferred.__deferred_flow f on f.id = m.flow
                              where m.job = p_id and m.part is distinct from 't'
                                and f.on_failure = 'cancel' and f.failed is null) then true
                 when exists (select from deferred.__deferred_step s where s.job_id = p_id)
                     or exists (select from deferred.__deferred_edge e where e.child = p_id)
                     then false
            end),
        d.max_attempts, deferred.__job_bytes(p_id, d.params))
    on conflict on constraint __deferred_hot_pkey do nothing;
    v_new := found;
    if v_new and v_key is not null
       and (d.key_until_ms is not null or pg_relation_size('deferred.__deferred_key'::regclass) > 0)
       and not deferred.__key_take(d.queue, v_key, p_id, d.key_until_ms) then
        raise unique_violation;
    end if;
    perform deferred.__queue_there(d.queue);
    perform deferred.__limited_add(d.queue)
    from deferred.__deferred_hot x where x.id = p_id and x.limited;
    return v_new;
exception when unique_violation then
    raise exception using errcode = '23505',
        message = format('job %s cannot be retried: key ''%s'' is in use by %s',
                         p_id, d.key, coalesce('job ' || (
                             select x.id from deferred.__key_holder(d.queue, v_key) x limit 1),
                             'another job')),
        hint = 'cancel the newer job, or defer the call again';
end
$$;
comment on function deferred.__revive is
    'part of deferred.retry() and deferred.flow_retry(): stores the hot row of a job that has '
    'ended';
