-- Stores one job of a schedule as its owner, as deferred.__enqueue() would. A worker acts here, so
-- this cannot call deferred.__enqueue(). queued_at of the schedule is the tick before. Returns NULL
-- if the queue is full and drops jobs.
create or replace function deferred.__schedule_job(s deferred.__deferred_schedule, due timestamptz,
                                                   tick timestamptz) returns bigint
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    v_owner name := (select r.rolname from pg_roles r where r.oid = s.owner);
    v_now   timestamptz := clock_timestamp();
    q       deferred.__deferred_queue;
    v_key   text collate "C";
    v_lane  text collate "C";
    v_limited boolean;
    v_expires timestamptz;
    v_id    bigint;
begin
    if v_owner is null then
        raise exception using errcode = '42501',
            message = format('schedule ''%s'': the role that owns it was dropped', s.name),
            hint = 'remove the schedule, and set it again as another role';
    end if;
    if not pg_has_role(v_owner, 'deferred_producer', 'usage') then
        raise exception using errcode = '42501',
            message = format('schedule ''%s'': its owner ''%s'' may not defer jobs',
                             s.name, v_owner),
            hint = format('grant deferred_producer to %I', v_owner);
    end if;
    q := deferred.__enqueue_queue(s.queue, s.fn, s.params, array[v_owner]);
    if q.max_length is not null and deferred.__queue_full(q, null) then return null; end if;
    v_key := case s.overlap when 'queue' then 'schedule:' || s.name
                  else s.opts->>'concurrency_key' end;
    v_lane := deferred.__own_key(v_owner, v_key);
    v_limited := deferred.__is_limited(s.queue, s.fn, v_key);
    v_expires := greatest(due,
                          v_now) + coalesce(nullif(deferred.__ms('expires', s.opts->>'expires'), 0),
                                            q.ttl_ms) * interval '1 millisecond';
    if v_limited then
        perform deferred.__limited_add(s.queue);
    end if;
    if due <= v_now then
        due := null;
    end if;
    v_id := nextval('deferred.__deferred_id_seq');
    insert into deferred.__deferred_hot (id, queue, fn, priority, due_at, visible_at, expires_at,
                                         limited, bounded, concurrency_key, concurrency,
        max_attempts, params_bytes)
    values (v_id, s.queue, s.fn, coalesce((s.opts->>'priority')::smallint, 0), due,
            coalesce(due, v_now), v_expires, v_limited, q.max_length is not null,
        v_lane, (s.opts->>'concurrency')::integer, (s.opts->>'max_attempts')::integer,
        deferred.__params_bytes(s.params));
    insert into deferred.__deferred (id, queue, fn, params, label, priority, run_at, expires_at,
                                     max_attempts, timeout_ms, backoff_floor_ms,
        backoff_ceiling_ms, backoff_exponent, created_at, created_by, concurrency_key, concurrency,
        tick, previous_tick, tags)
    values (v_id, s.queue, s.fn, s.params, coalesce(s.opts->>'label',
                                                    case s.fn when 'send_mail'
                                                        then deferred.__subject(s.params) end),
        coalesce((s.opts->>'priority')::smallint, 0), due, v_expires,
        (s.opts->>'max_attempts')::integer, deferred.__ms('timeout', s.opts->>'timeout'),
        deferred.__ms('backoff_floor', s.opts->>'backoff_floor'),
        deferred.__ms('backoff_ceiling', s.opts->>'backoff_ceiling'),
        (s.opts->>'backoff_exponent')::double precision, v_now, v_owner, v_key,
        (s.opts->>'concurrency')::integer, tick,
        s.queued_at, deferred.__tags(s.opts->'tags'));
    if (due is null or due < v_now + interval '1 minute') and not deferred.__nobody_waits() then
        perform deferred.__wake(s.queue);
    end if;
    return v_id;
end
$$;
comment on function deferred.__schedule_job is 'stores one job of a schedule, as its owner';
