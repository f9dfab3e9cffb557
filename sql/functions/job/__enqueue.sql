create or replace function deferred.__enqueue(
    fn text, params json, queue text, label text, priority integer,
    delay_ms bigint, run_at timestamptz, expires_ms bigint, expires_at timestamptz,
    key text, on_duplicate text, max_attempts integer, timeout_ms bigint,
    backoff_floor_ms bigint, backoff_ceiling_ms bigint, backoff_exponent double precision,
    concurrency_key text default null, concurrency integer default null, tags json default null,
    traceparent text default null)
returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    v_queue      text collate "C" := coalesce($3, 'default');
    v_fn         text collate "C" := $1;
    v_now        timestamptz := clock_timestamp();
    v_due        timestamptz;
    v_expires    timestamptz;
    v_max_bytes  integer;
    v_limited    boolean;
    v_ttl_ms     bigint;
    v_max_length integer;
    v_drop       boolean;
    v_removed    boolean;
    v_usual      boolean;
    v_id         bigint;
    v_old        record;
    v_free       boolean;
    v_actor      name := deferred.__actor();
    v_key        text collate "C";
    v_lane       text collate "C";
    v_tags       text[] collate "C";
begin
    -- Each expression and each statement costs a microsecond and more: the usual call passes all
    -- checks in two.
    if (length(v_fn) <= 127 and v_fn ~ '^[A-Za-z_][A-Za-z0-9_.]*$' and $2 is not null
        and num_nonnulls($4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19,
                         $20) = 0) is not true then
        -- Without a function it is a message: a call to the function the queue is bound to, if
        -- there is one.
        if v_fn is null and $3 is not null then
            select q.fn into v_fn from deferred.__deferred_queue q where q.name = v_queue;
        end if;
        if (v_fn is null and $3 is null) or length(v_fn) > 127
            or v_fn !~ '^[A-Za-z_][A-Za-z0-9_.]*$' then
            raise exception using errcode = '22023',
                message = case when v_fn is null then 'the function is missing'
                               else format('function name ''%s'' is invalid', left(v_fn, 200)) end,
                hint = case when v_fn is null
                            then 'name a function; only a message has none, and needs a queue'
                            else 'a name has 1 to 127 letters, digits, ''_'' and ''.'', and begins '
                                 'with a letter or ''_''' end;
        end if;
        if $2 is null then
            raise exception using errcode = '22004',
                message = format('params of function ''%s'' are NULL', v_fn),
                hint = 'pass ''{}'' for a call without params';
        end if;
        if $5 not between -32768 and 32767 then
            raise exception using errcode = '22003',
                message = format('option ''priority'' is out of range: %s', $5),
                hint = 'use -32768 to 32767; jobs with a larger priority run earlier';
        end if;
        if not deferred.__times_ok($7, $9, $6, $8)
           or not deferred.__opts_ok($4, $10, $12, $13, $14, $15, $16) then
            perform deferred.__opts_refuse($4, $10, $7, $9, $6, $8, $12, $13, $14, $15, $16);
        end if;
        if $11 not in ('skip', 'error', 'replace') then
            raise exception using errcode = '22023',
                message = format('option ''on_duplicate'' has the invalid value ''%s''',
                                 left($11, 200)),
                hint = 'use skip, error or replace';
        end if;
        if v_fn is null and $17 is not null then
            raise exception using errcode = '22023',
                message = 'option ''concurrency_key'' is not allowed for a message',
                hint = 'concurrency keys are for calls; set max_running of the queue to limit '
                       'how many messages are claimed at once';
        end if;
        if ($17 is not null or $18 is not null) and not deferred.__concurrency_ok($17, $18) then
            raise exception using errcode = '22003',
                message = format('concurrency %s of key %s is out of range',
                                 coalesce($18::text, 'NULL'),
                                 coalesce('''' || left($17, 200) || '''', 'NULL')),
                hint =
                    'concurrency_key: 1 to 1000 characters; concurrency: 1 to 10000, together with '
                    'a key';
        end if;
        if $19 is not null then
            v_tags := deferred.__tags($19);
        end if;
        if $20 is not null then
            perform deferred.__traceparent($20);
        end if;
        if num_nonnulls($10, $17) > 0 then
            v_key := deferred.__own_key(v_actor, $10);
            v_lane := deferred.__own_key(v_actor, $17);
        end if;
        v_due := coalesce(nullif($7, '-infinity'),
                          case when $6 > 0 and $7 is null
                                   then v_now + $6 * interval '1 millisecond' end);
        v_expires := coalesce($9, case when $8 > 0 then v_now + $8 * interval '1 millisecond' end);
    end if;
    -- One look at the queue.
    select q.params_max_bytes, q.ttl_ms, q.max_length, q.on_full = 'drop',
           $17 is not null or q.max_running is not null or q.rate is not null,
           q.removed_at is not null,
           octet_length($2::text) <= least(q.params_max_bytes, 512)
               and num_nonnulls(q.ttl_ms, q.max_length, q.removed_at) = 0
           and pg_sequence_last_value('deferred.__deferred_unrestricted') = 1
    into v_max_bytes, v_ttl_ms, v_max_length, v_drop, v_limited, v_removed, v_usual
    from deferred.__deferred_queue q where q.name = v_queue;
    if (v_usual and not v_limited) is not true then
        v_limited := deferred.__is_limited(v_queue, v_fn, $17);
        -- NULL for a role without rows, which may defer anything.
        if not (select bool_or((g.queue is null or g.queue = v_queue)
                               and (g.fn is null or (g.fn = v_fn) is true))
                from deferred.__deferred_grant g where g.role in (v_actor, session_user)) then
            raise exception using errcode = '42501',
                message = format('role ''%s'' may not defer %s to queue ''%s''', v_actor,
                                 coalesce('''' || v_fn || '''', 'messages'), v_queue),
                hint = 'an administrator allows it with a row in the table '
                       'deferred.__deferred_grant, see deferred-queue(1)';
        end if;
        if v_max_bytes is null then
            if v_queue !~ '^[A-Za-z0-9_][A-Za-z0-9_.-]{0,87}$' then
                raise exception using errcode = '22023',
                    message = format('queue name ''%s'' is invalid', left(v_queue, 200)),
                    hint = 'a name has 1 to 88 letters, digits, ''_'', ''.'' and ''-''';
            end if;
            perform deferred.__queue_add(v_queue, v_actor);
            v_max_bytes := 1048576;
        end if;
        if octet_length($2::text) > v_max_bytes then
            raise exception using errcode = '54000',
                message = format('params of function ''%s'' have %s bytes, but queue ''%s'' '
                                 'allows %s',
                                 v_fn, octet_length($2::text), v_queue, v_max_bytes),
                hint =
                    'store the data elsewhere and pass a reference, or raise params_max_bytes of '
                    'the queue';
        end if;
        if octet_length($2::text) > 512 and not deferred.__depth_ok($2) then
            raise exception using errcode = '54000',
                message = format('params of function ''%s'' nest deeper than 512 levels', v_fn),
                hint = 'pass nested data as text';
        end if;
        if v_ttl_ms is not null and v_expires is null then
            v_expires := v_now + v_ttl_ms * interval '1 millisecond';
        end if;
        if v_removed then
            perform deferred.__queue_add(v_queue, v_actor);
        end if;
        -- The first of its kind in the queue: workers learn that there is more to ask for. A later
        -- one finds it done.
        if v_limited and not exists (
            select from deferred.__deferred_limited l where l.queue = v_queue) then
            perform deferred.__limited_add(v_queue);
        end if;
        if v_max_length is not null and deferred.__queue_length(v_queue,
            v_max_length) >= v_max_length
           and ($10 is null or not exists (select from deferred.__deferred_hot h
                                           where h.queue = v_queue and h.key = v_key)) then
            if v_drop then return null; end if;
            raise exception using errcode = '53400',
                message = format('queue ''%s'' is full (max_length %s)', v_queue, v_max_length),
                hint = 'defer again later, or raise max_length of the queue';
        end if;
    end if;

    v_id := nextval('deferred.__deferred_id_seq');
    if $10 is null then
        insert into deferred.__deferred_hot (id, queue, fn, priority, due_at, visible_at,
                                             expires_at, limited, bounded,
            concurrency_key, concurrency, max_attempts, params_bytes)
        values (v_id, v_queue, v_fn, coalesce($5, 0), v_due, coalesce(v_due, v_now), v_expires,
                v_limited,
            v_max_length is not null, v_lane, $18, $12, deferred.__params_bytes($2));
    else
        loop
            insert into deferred.__deferred_hot (id, queue, fn, priority, due_at, visible_at,
                                                 expires_at, key, limited, bounded,
                concurrency_key, concurrency, max_attempts, params_bytes)
            values (v_id, v_queue, v_fn, coalesce($5, 0), v_due, coalesce(v_due, v_now), v_expires,
                    v_key, v_limited,
                v_max_length is not null, v_lane, $18, $12, deferred.__params_bytes($2))
            on conflict (queue, key) where key is not null do nothing;
            exit when found;
            -- Somebody has the key. Between the two statements he may have finished: then try
            -- again.
            -- Only who replaces it may lock it: else an open transaction would hold up the worker
            -- that runs it.
            select h.id, coalesce(h.expires_at <= v_now
                                  and not deferred.__is_claimed(h), false) as expired into v_old
            from deferred.__deferred_hot h where h.queue = v_queue and h.key = v_key;
            continue when not found;
            -- One that has expired never runs, so it must not stand in the way of one that can.
            if not v_old.expired then
                if coalesce($11, 'skip') = 'skip' then
                    return v_old.id;
                elsif $11 = 'error' then
                    raise exception using errcode = '23505',
                        message = format('job %s of queue ''%s'' has key ''%s'' already',
                                         v_old.id, v_queue, $10),
                        hint = 'use another key, or on_duplicate skip or replace';
                end if;
            end if;
            v_free := deferred.__lock_unclaimed(v_old.id);
            continue when v_free is null or (v_old.expired and not v_free);
            if not v_free then
                raise exception using errcode = '55006',
                    message = format('job %s with key ''%s'' is running and cannot be replaced',
                                     v_old.id, $10),
                    hint = 'defer again when the job has ended, or use another key';
            end if;
            insert into deferred.__deferred_log (job_id, attempt, outcome, final, error)
            select h.id, case when h.watched then deferred.__note_end(h.id, 0, s.outcome)
                              else 0 end, s.outcome, true,
                   case when v_old.expired then format('not started before %s', h.expires_at)
                        else format('replaced by job %s', v_id) end
            from deferred.__deferred_hot h
            cross join (select case when v_old.expired then 'expired'
                                    else 'cancelled' end as outcome) s where h.id = v_old.id;
            delete from deferred.__deferred_hot h where h.id = v_old.id;
        end loop;
    end if;
    insert into deferred.__deferred (id, queue, fn, params, label, key, priority, run_at,
                                     expires_at, max_attempts,
        timeout_ms, backoff_floor_ms, backoff_ceiling_ms, backoff_exponent, created_at, created_by,
        concurrency_key, concurrency, tags,
        traceparent)
    values (v_id, v_queue, v_fn, $2, case when $4 is null and v_fn = 'send_mail'
                                              then deferred.__subject($2)
                                                  else $4 end, $10, coalesce($5, 0), v_due,
                                                  v_expires, $12, $13, $14, $15, $16, v_now,
                                                  v_actor, $17,
        $18, v_tags, $20);
    -- A sleeper must learn when to rise; for what is due later the look that a service takes every
    -- half minute is soon enough.
    if (v_due is null or v_due < v_now + interval '1 minute') and not deferred.__nobody_waits() then
        perform deferred.__wake(v_queue);
    end if;
    return v_id;
end
$$;
comment on function deferred.__enqueue is
    'stores one job, whatever its options; what deferred.defer() and the C library call';
grant execute on function deferred.__enqueue to deferred_producer;
