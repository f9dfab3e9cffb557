-- 0005 listen: idle workers are woken by NOTIFY, sent only while somebody waits.
--
-- NOTIFY is dear: at commit it takes a lock that all notifying transactions of the server share, until the commit
-- is on disk. So who defers asks first whether anybody waits, and that must cost next to nothing.
--
-- A worker that has nothing to do holds, for its session, a shared advisory lock on each queue it serves ('*' stands
-- for all of them). Who defers tries to take the same lock exclusively and gives it back in the same breath: if that
-- fails, somebody waits. Why not otherwise:
--   * held until the end of the transaction, the exclusive lock of one who defers would look to the next one like a
--     worker that waits, and it would keep workers from going to sleep for as long as the transaction is open;
--   * shared by those who defer and exclusive for the worker, one long transaction that has deferred a job would
--     keep every worker from being woken at all, and only one worker could wait.
-- Given back at once, two who try within the same microsecond can meet; each tries three times before believing it.
--
-- No wake-up is lost. A job is inserted, and its transaction has its number, before __waits() looks. The worker takes
-- its lock, then notes the transactions in progress, then claims once more, and sleeps only if that found nothing.
-- A transaction that looked after the lock was taken notifies. One that looked before it has either ended by the
-- time of the claim, which then sees its job, or was in progress, and is on the list: the worker looks again until
-- those have ended (lib/worker_listen.c).

set local role deferred_owner;

-- One expression, which the planner puts in the place of the call: nothing can interrupt it between taking and giving back.
create function deferred.__waits(queue text) returns boolean
language sql
as $$
    select not (((pg_catalog.pg_try_advisory_lock(1145390674, pg_catalog.hashtext('*'))
          and pg_catalog.pg_advisory_unlock(1145390674, pg_catalog.hashtext('*')))
         or (pg_catalog.pg_try_advisory_lock(1145390674, pg_catalog.hashtext('*'))
             and pg_catalog.pg_advisory_unlock(1145390674, pg_catalog.hashtext('*')))
         or (pg_catalog.pg_try_advisory_lock(1145390674, pg_catalog.hashtext('*'))
             and pg_catalog.pg_advisory_unlock(1145390674, pg_catalog.hashtext('*'))))
        and ((pg_catalog.pg_try_advisory_lock(1145390674, pg_catalog.hashtext(queue))
              and pg_catalog.pg_advisory_unlock(1145390674, pg_catalog.hashtext(queue)))
             or (pg_catalog.pg_try_advisory_lock(1145390674, pg_catalog.hashtext(queue))
                 and pg_catalog.pg_advisory_unlock(1145390674, pg_catalog.hashtext(queue)))
             or (pg_catalog.pg_try_advisory_lock(1145390674, pg_catalog.hashtext(queue))
                 and pg_catalog.pg_advisory_unlock(1145390674, pg_catalog.hashtext(queue)))))
$$;
comment on function deferred.__waits(text) is 'true: some worker that serves the queue is idle and waits to be told of a ready job';
revoke all on function deferred.__waits(text) from public;
grant execute on function deferred.__waits(text) to deferred_producer;

create function deferred.__wake(queue text) returns void
language plpgsql
as $$
begin
    if deferred.__waits(queue) then
        perform pg_catalog.pg_notify('deferred', queue);
    end if;
end
$$;
comment on function deferred.__wake(text) is 'tell idle workers, if any wait, that a queue has a ready job; after the job has been stored';
revoke all on function deferred.__wake(text) from public;
grant execute on function deferred.__wake(text) to deferred_producer;

-- As in 0004, but for the look at __waits(), and quicker for the usual call. A job that is due within a minute wakes too, for a sleeper must learn when
-- to rise; for later ones the look that a service takes every half minute is soon enough.
create or replace function deferred.__enqueue(
    fn text, params json, queue text, label text, priority integer,
    delay_ms bigint, run_at timestamptz, expires_ms bigint, expires_at timestamptz,
    key text, on_duplicate text, max_attempts integer, timeout_ms bigint,
    backoff_floor_ms bigint, backoff_ceiling_ms bigint, backoff_exponent double precision,
    concurrency_key text default null, concurrency integer default null)
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
    v_allowed    boolean;
    v_max_bytes  integer;
    v_limited    boolean;
    v_ttl_ms     bigint;
    v_max_length integer;
    v_drop       boolean;
    v_removed    boolean;
    v_marked     boolean;
    v_plain      boolean;
    v_id         bigint;
    v_old        record;
    v_actor      name := deferred.__actor();
begin
    -- Each expression and each statement costs a microsecond and more: the usual call passes all checks in two.
    if (length(v_fn) <= 127 and v_fn ~ '^[A-Za-z_][A-Za-z0-9_.]*$' and $2 is not null
        and num_nonnulls($4, $5, $6, $7, $8, $9, $10, $12, $13, $14, $15, $16, $17, $18) = 0) is not true then
        -- Without a function it is a message: a call to the function the queue is bound to, if there is one.
        if v_fn is null and $3 is not null then
            select q.fn into v_fn from deferred.__deferred_queue q where q.name = v_queue;
        end if;
        if (v_fn is null and $3 is null) or length(v_fn) > 127 or v_fn !~ '^[A-Za-z_][A-Za-z0-9_.]*$' then
            raise exception using errcode = '22023',
                message = format('invalid function name %s', coalesce(quote_literal(left(v_fn, 200)), 'NULL')),
                hint = 'a name has 1 to 127 letters, digits, "_" and ".", and begins with a letter or "_"';
        end if;
        if $2 is null then
            raise exception using errcode = '22004',
                message = format('params of %L are NULL', v_fn), hint = 'pass ''{}'' for a call without params';
        end if;
        if $5 not between -32768 and 32767 then
            raise exception using errcode = '22003',
                message = format('priority %s is out of range', $5), hint = 'use -32768 to 32767; larger is taken earlier';
        end if;
        if $6 < 0 or $8 < 0 then
            raise exception using errcode = '22003',
                message = format('negative time span: delay %s ms, expires %s ms', $6, $8);
        end if;
        if not deferred.__opts_ok($4, $10, $12, $13, $14, $15, $16) then
            raise exception using errcode = '22003',
                message = format('an option of %L is out of range', v_fn),
                hint = 'label: at most 1000 characters; key: 1 to 1000; max_attempts, timeout and back-off delays: '
                       'more than 0; backoff_exponent: 1 to 100';
        end if;
        if ($17 is not null or $18 is not null) and not deferred.__concurrency_ok($17, $18) then
            raise exception using errcode = '22003',
                message = format('concurrency %s of key %L is out of range', coalesce($18::text, 'NULL'), left($17, 200)),
                hint = 'concurrency_key: 1 to 1000 characters; concurrency: 1 to 10000, together with a key';
        end if;
        v_due := coalesce($7, case when $6 > 0 then v_now + $6 * interval '1 millisecond' end);
        v_expires := coalesce($9, case when $8 > 0 then v_now + $8 * interval '1 millisecond' end);
    end if;
    -- One look at all tables. v_allowed is NULL for a role without rows, which may defer anything.
    select (select bool_or((g.queue is null or g.queue = v_queue) and (g.fn is null or g.fn = v_fn))
            from deferred.__deferred_grant g where g.role in (v_actor, session_user)),
           q.params_max_bytes, q.ttl_ms, q.max_length, q.on_full = 'drop',
           $17 is not null or q.max_running is not null or q.rate is not null
           or exists (select from deferred.__deferred_function f where f.name = v_fn),
           q.removed_at is not null, q.limited_jobs,
           octet_length($2::text) <= least(q.params_max_bytes, 512) and num_nonnulls(q.ttl_ms, q.max_length, q.removed_at) = 0
    into v_allowed, v_max_bytes, v_ttl_ms, v_max_length, v_drop, v_limited, v_removed, v_marked, v_plain
    from deferred.__deferred_queue q where q.name = v_queue;
    if (v_plain and not v_limited and v_allowed is not false) is not true then
        if v_max_bytes is null then  -- no such queue yet
            v_allowed := (select bool_or((g.queue is null or g.queue = v_queue) and (g.fn is null or g.fn = v_fn))
                          from deferred.__deferred_grant g where g.role in (v_actor, session_user));
            v_limited := deferred.__is_limited(v_queue, v_fn, $17);
        end if;
        if not v_allowed then
            raise exception using errcode = '42501',
                message = format('role %I may not defer %L to queue %L', v_actor, v_fn, v_queue),
                hint = 'an administrator grants it by a row in deferred.__deferred_grant';
        end if;
        if v_max_bytes is null then
            if v_queue !~ '^[A-Za-z0-9_][A-Za-z0-9_.-]{0,62}$' then
                raise exception using errcode = '22023',
                    message = format('invalid queue name %L', left(v_queue, 200)),
                    hint = 'a name has 1 to 63 letters, digits, "_", "." and "-"';
            end if;
            insert into deferred.__deferred_queue (name) values (v_queue) on conflict do nothing;
            v_max_bytes := 1048576;
        end if;
        if octet_length($2::text) > v_max_bytes then
            raise exception using errcode = '54000',
                message = format('params of %L have %s bytes, queue %L takes %s', v_fn, octet_length($2::text), v_queue, v_max_bytes),
                hint = 'store the data elsewhere and pass a reference, or raise params_max_bytes of the queue';
        end if;
        if octet_length($2::text) > 512 and not deferred.__depth_ok($2) then
            raise exception using errcode = '54000',
                message = format('params of %L nest deeper than 512 levels', v_fn);
        end if;
        if v_ttl_ms is not null and v_expires is null then
            v_expires := v_now + v_ttl_ms * interval '1 millisecond';
        end if;
        -- The first of its kind in the queue: workers learn that there is more to ask for. A later one finds it done.
        if v_removed or (v_limited and v_marked is not true) then
            update deferred.__deferred_queue q set limited_jobs = q.limited_jobs or v_limited, removed_at = null
            where q.name = v_queue and (q.removed_at is not null or (v_limited and not q.limited_jobs));
        end if;
        if v_max_length is not null and deferred.__queue_length(v_queue, v_max_length) >= v_max_length
           and ($10 is null or not exists (select from deferred.__deferred_hot h where h.queue = v_queue and h.key = $10)) then
            if v_drop then return null; end if;
            raise exception using errcode = '53400',
                message = format('queue %L is full: it holds %s jobs', v_queue, v_max_length),
                hint = 'defer again later, or raise max_length of the queue';
        end if;
    end if;

    v_id := nextval('deferred.__deferred_id_seq');
    if $10 is null then
        insert into deferred.__deferred_hot (id, queue, fn, priority, due_at, visible_at, expires_at, limited, bounded,
            concurrency_key, concurrency)
        values (v_id, v_queue, v_fn, coalesce($5, 0), v_due, coalesce(v_due, v_now), v_expires, v_limited,
            v_max_length is not null, $17, $18);
    else
        if coalesce($11, 'skip') not in ('skip', 'error', 'replace') then
            raise exception using errcode = '22023',
                message = format('invalid on_duplicate %L', $11), hint = 'use skip, error or replace';
        end if;
        loop
            insert into deferred.__deferred_hot (id, queue, fn, priority, due_at, visible_at, expires_at, key, limited, bounded,
                concurrency_key, concurrency)
            values (v_id, v_queue, v_fn, coalesce($5, 0), v_due, coalesce(v_due, v_now), v_expires, $10, v_limited,
                v_max_length is not null, $17, $18)
            on conflict (queue, key) where key is not null do nothing;
            exit when found;
            -- Somebody has the key. Between the two statements he may have finished: then try again.
            -- Only who replaces it may lock it: else an open transaction would hold up the worker that runs it.
            select h.id, h.receipt into v_old from deferred.__deferred_hot h where h.queue = v_queue and h.key = $10;
            continue when not found;
            if coalesce($11, 'skip') = 'skip' then
                return v_old.id;
            elsif $11 = 'error' then
                raise exception using errcode = '23505',
                    message = format('job %s of queue %L has key %L already', v_old.id, v_queue, $10);
            end if;
            select h.id, h.receipt into v_old from deferred.__deferred_hot h where h.queue = v_queue and h.key = $10 for update;
            continue when not found;
            if v_old.receipt is not null then
                raise exception using errcode = '55006',
                    message = format('job %s with key %L is being run and cannot be replaced', v_old.id, $10),
                    hint = 'defer again when it has finished, or use another key';
            end if;
            delete from deferred.__deferred_hot h where h.id = v_old.id;
            insert into deferred.__deferred_log (job_id, attempt, outcome, final, error)
            values (v_old.id, 0, 'cancelled', true, format('replaced by job %s', v_id));
        end loop;
    end if;
    insert into deferred.__deferred (id, queue, fn, params, label, key, priority, run_at, expires_at, max_attempts,
        timeout_ms, backoff_floor_ms, backoff_ceiling_ms, backoff_exponent, created_at, created_by, concurrency_key, concurrency)
    values (v_id, v_queue, v_fn, $2, $4, $10, coalesce($5, 0), v_due, v_expires, $12, $13, $14, $15, $16, v_now, v_actor, $17,
        $18);
    if (v_due is null or v_due < v_now + interval '1 minute') and deferred.__waits(v_queue) then
        perform pg_notify('deferred', v_queue);
    end if;
    return v_id;
end
$$;

create or replace function deferred.__enqueue_many(
    fn text[], params json[], queue text[], label text[], priority integer[],
    delay_ms bigint[], run_at timestamptz[], expires_ms bigint[], expires_at timestamptz[],
    key text[], on_duplicate text[], max_attempts integer[], timeout_ms bigint[],
    backoff_floor_ms bigint[], backoff_ceiling_ms bigint[], backoff_exponent double precision[],
    concurrency_key text[] default null, concurrency integer[] default null)
returns setof bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    v_now   timestamptz := clock_timestamp();
    v_actor name := deferred.__actor();
    v_ids   bigint[];
    v_n     integer := coalesce(array_length($1, 1), 0);
    v_bad   record;
    v_special boolean;
begin
    if v_n = 0 then return; end if;
    -- A job with a key may meet another one; a limited role is checked job by job. Both take the
    -- way of the single job. So does an invalid job, which then reports itself.
    select j.n, j.fn, j.params, j.queue, j.priority into v_bad
    from unnest($1, $2, $3, $4, $5, $6, $8, $10, $12, $13, $14, $15, $16, $17, $18) with ordinality
         as j(fn, params, queue, label, priority, delay_ms, expires_ms, key, max_attempts, timeout_ms, backoff_floor_ms,
              backoff_ceiling_ms, backoff_exponent, concurrency_key, concurrency, n)
    left join deferred.__deferred_queue q on q.name = coalesce(j.queue, 'default')
    where j.key is not null or q.name is null or j.fn is null or j.params is null
       or length(j.fn) > 127 or j.fn !~ '^[A-Za-z_][A-Za-z0-9_.]*$'
       or not deferred.__opts_ok(j.label, j.key, j.max_attempts, j.timeout_ms, j.backoff_floor_ms, j.backoff_ceiling_ms,
                                 j.backoff_exponent)
       or not deferred.__concurrency_ok(j.concurrency_key, j.concurrency)
       or q.max_length is not null or q.removed_at is not null
       or j.priority not between -32768 and 32767 or j.delay_ms < 0 or j.expires_ms < 0
       or octet_length(j.params::text) > q.params_max_bytes
       or (octet_length(j.params::text) > 512 and not deferred.__depth_ok(j.params))
    limit 1;
    if found or exists (select from deferred.__deferred_grant g where g.role in (v_actor, session_user)) then
        return query
            select deferred.__enqueue(j.fn, j.params, j.queue, j.label, j.priority, j.delay_ms, j.run_at, j.expires_ms,
                j.expires_at, j.key, j.on_duplicate, j.max_attempts, j.timeout_ms, j.backoff_floor_ms,
                j.backoff_ceiling_ms, j.backoff_exponent, j.concurrency_key, j.concurrency)
            from unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18)
                 as j(fn, params, queue, label, priority, delay_ms, run_at, expires_ms, expires_at, key, on_duplicate,
                      max_attempts, timeout_ms, backoff_floor_ms, backoff_ceiling_ms, backoff_exponent, concurrency_key, concurrency);
        return;
    end if;

    v_ids := array(select nextval('deferred.__deferred_id_seq') from generate_series(1, v_n));
    -- Where no queue named here has settings that matter now, none is looked up row by row.
    v_special := $17 is not null or exists (select from deferred.__deferred_function)
        or exists (select from deferred.__deferred_queue q where coalesce(q.max_running, q.rate, q.ttl_ms) is not null);
    insert into deferred.__deferred_hot (id, queue, fn, priority, due_at, visible_at, expires_at, limited, concurrency_key, concurrency)
    select j.id, coalesce(j.queue, 'default'), j.fn, coalesce(j.priority, 0), t.due, coalesce(t.due, v_now),
           coalesce(j.expires_at, case when j.expires_ms > 0 then v_now + j.expires_ms * interval '1 millisecond' end,
                    case when v_special then deferred.__queue_expiry(coalesce(j.queue, 'default'), v_now) end),
           case when v_special then deferred.__is_limited(coalesce(j.queue, 'default'), j.fn, j.concurrency_key) else false end,
           j.concurrency_key, j.concurrency
    from unnest(v_ids, $1, $3, $5, $6, $7, $8, $9, $17, $18)
         as j(id, fn, queue, priority, delay_ms, run_at, expires_ms, expires_at, concurrency_key, concurrency)
    cross join lateral (select coalesce(j.run_at,
                        case when j.delay_ms > 0 then v_now + j.delay_ms * interval '1 millisecond' end) as due) t;
    if v_special then
        update deferred.__deferred_queue q set limited_jobs = true
        where not q.limited_jobs and exists (
            select from unnest($1, $3, $17) as j(fn, queue, concurrency_key)
            where coalesce(j.queue, 'default') = q.name and deferred.__is_limited(q.name, j.fn, j.concurrency_key));
    end if;
    insert into deferred.__deferred (id, queue, fn, params, label, priority, run_at, expires_at, max_attempts,
        timeout_ms, backoff_floor_ms, backoff_ceiling_ms, backoff_exponent, created_at, created_by, concurrency_key, concurrency)
    select j.id, coalesce(j.queue, 'default'), j.fn, j.params, j.label, coalesce(j.priority, 0),
           coalesce(j.run_at, case when j.delay_ms > 0 then v_now + j.delay_ms * interval '1 millisecond' end),
           coalesce(j.expires_at, case when j.expires_ms > 0 then v_now + j.expires_ms * interval '1 millisecond' end,
                    case when v_special then deferred.__queue_expiry(coalesce(j.queue, 'default'), v_now) end),
           j.max_attempts, j.timeout_ms, j.backoff_floor_ms, j.backoff_ceiling_ms, j.backoff_exponent, v_now, v_actor,
           j.concurrency_key, j.concurrency
    from unnest(v_ids, $1, $2, $3, $4, $5, $6, $7, $8, $9, $12, $13, $14, $15, $16, $17, $18)
         as j(id, fn, params, queue, label, priority, delay_ms, run_at, expires_ms, expires_at, max_attempts, timeout_ms,
              backoff_floor_ms, backoff_ceiling_ms, backoff_exponent, concurrency_key, concurrency);
    perform deferred.__wake(t.queue)
    from (select distinct coalesce(j.queue, 'default') as queue
          from unnest($1, $3, $6, $7) as j(fn, queue, delay_ms, run_at)
          where coalesce(j.run_at < v_now + interval '1 minute', coalesce(j.delay_ms, 0) < 60000)) t;
    return query select unnest(v_ids);
end
$$;

create or replace function deferred.retry(id bigint) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
    h deferred.__deferred_hot;
    d deferred.__deferred;
    v_outcome text;
    v_attempt integer;
begin
    select * into d from deferred.__deferred x where x.id = $1;
    if not found or not deferred.__may_touch(d.created_by::name) then return false; end if;
    select * into h from deferred.__deferred_hot x where x.id = $1 for update;
    if found then
        if h.receipt is not null then
            if h.visible_at > clock_timestamp() then
                raise exception using errcode = '55006', message = format('job %s is being run', $1),
                    hint = 'wait for its outcome, or cancel it first';
            end if;
            return true;  -- its lease has ended: the next claim takes it
        end if;
        update deferred.__deferred_hot x set due_at = null, visible_at = clock_timestamp(), xid = pg_current_xact_id()
        where x.id = $1 and x.due_at is not null;
        perform deferred.__wake(h.queue);
        return true;
    end if;
    select l.outcome into v_outcome from deferred.__deferred_log l where l.job_id = $1 and l.final
    order by l.finished_at desc, l.attempt desc limit 1;
    if v_outcome = 'ok' then
        raise exception using errcode = '55000', message = format('job %s is done', $1),
            hint = 'defer the call again to have it run once more';
    end if;
    select coalesce(max(l.attempt), 0) into v_attempt from deferred.__deferred_log l where l.job_id = $1;
    insert into deferred.__deferred_hot (id, queue, fn, priority, visible_at, attempt, attempt_base, key, limited, bounded,
        concurrency_key, concurrency)
    values (d.id, d.queue, d.fn, d.priority, clock_timestamp(), v_attempt, v_attempt, d.key,
        deferred.__is_limited(d.queue, d.fn, d.concurrency_key),
        exists (select from deferred.__deferred_queue q where q.name = d.queue and q.max_length is not null), d.concurrency_key,
        d.concurrency)
    on conflict on constraint __deferred_hot_pkey do nothing;
    update deferred.__deferred_queue q set limited_jobs = q.limited_jobs or x.limited, removed_at = null
    from deferred.__deferred_hot x
    where x.id = $1 and q.name = x.queue and (q.removed_at is not null or (x.limited and not q.limited_jobs));
    perform deferred.__wake(d.queue);
    return true;
exception when unique_violation then
    raise exception using errcode = '23505', message = format('job %s has key %L, which a newer job has too', $1, d.key),
        hint = 'cancel the newer job, or defer the call again';
end
$$;

reset role;
