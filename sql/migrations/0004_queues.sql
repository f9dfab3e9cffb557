-- 0004 queues: settings of queues, limits per queue, function and key.
--
-- A hot job that a limit may hold back carries a mark (limited) and lies in indexes of its own: claims of other
-- jobs neither see nor lock anything of it. Marked jobs are claimed by deferred.__claim_limited(), which locks one
-- row of __deferred_limit for each limit in play, without waiting: what that row says of running jobs and of tokens
-- is exact while the lock is held. Who runs is not counted up and down but looked up: a job listed there counts
-- while its hot row is claimed and the lease runs, so whatever ends a claim, a killed worker's lease included, frees
-- its place.

set local role deferred_owner;

-- ---------------------------------------------------------------- settings of queues and functions

alter table deferred.__deferred_queue
    add column visibility_timeout_ms bigint check (visibility_timeout_ms between 1000 and 86400000),
    add column ttl_ms             bigint check (ttl_ms > 0),
    add column max_attempts       integer check (max_attempts > 0),
    add column backoff_floor_ms   bigint check (backoff_floor_ms > 0),
    add column backoff_ceiling_ms bigint check (backoff_ceiling_ms > 0),
    add column backoff_exponent   double precision check (backoff_exponent between 1 and 100),
    add column max_running        integer check (max_running > 0),
    add column rate               double precision check (rate between 1e-7 and 1e6),
    add column burst              integer check (burst between 1 and 1000000),
    add column max_length         integer check (max_length > 0),
    add column on_full            text collate "C" not null default 'error' check (on_full in ('error', 'drop')),
    add column fn                 text collate "C" check (fn ~ '^[A-Za-z_][A-Za-z0-9_.]{0,126}$'),
    add column metadata           json,
    add column weight             double precision not null default 1 check (weight between 0.001 and 1000),
    add column limited_jobs       boolean not null default false,
    add column removed_at         timestamptz;
comment on column deferred.__deferred_queue.visibility_timeout_ms is 'length of a lease, milliseconds; NULL: what the worker says';
comment on column deferred.__deferred_queue.ttl_ms is 'a job deferred without an expiry expires after that, milliseconds; NULL: never';
comment on column deferred.__deferred_queue.max_attempts is 'of jobs that say nothing; NULL: what the function or the worker says';
comment on column deferred.__deferred_queue.backoff_floor_ms is 'of jobs that say nothing, milliseconds; NULL: what the worker says';
comment on column deferred.__deferred_queue.backoff_ceiling_ms is 'of jobs that say nothing, milliseconds; NULL: what the worker says';
comment on column deferred.__deferred_queue.backoff_exponent is 'of jobs that say nothing; NULL: what the worker says';
comment on column deferred.__deferred_queue.max_running is 'attempts at once, all workers together; NULL: no limit';
comment on column deferred.__deferred_queue.rate is 'attempts a second, all workers together; NULL: no limit';
comment on column deferred.__deferred_queue.burst is 'attempts that may start at once after a pause, where there is a rate; NULL: 1';
comment on column deferred.__deferred_queue.max_length is 'hot jobs it holds, each deferral counts that far; NULL: no limit';
comment on column deferred.__deferred_queue.on_full is 'what a deferral to a full queue does: error, or drop the new job without a word';
comment on column deferred.__deferred_queue.fn is 'function that a message deferred without one becomes a call of; NULL: it stays a message';
comment on column deferred.__deferred_queue.metadata is 'for applications, not looked at';
comment on column deferred.__deferred_queue.weight is 'share of the claims of a worker that serves several queues';
comment on column deferred.__deferred_queue.limited_jobs is 'true: some hot job of it may be marked as limited; once true it stays so';
comment on column deferred.__deferred_queue.removed_at is 'when it was removed; the row stays, so that a job deferred in the same moment is not lost, and the next deferral brings it back';

create table deferred.__deferred_function (
    name        text collate "C" primary key check (name ~ '^[A-Za-z_][A-Za-z0-9_.]{0,126}$'),
    max_running integer check (max_running > 0),
    rate        double precision check (rate between 1e-7 and 1e6),
    burst       integer check (burst between 1 and 1000000),
    check (coalesce(max_running, rate) is not null)
);
comment on table  deferred.__deferred_function is 'functions that have a limit, in whatever queue; one without has no row';
comment on column deferred.__deferred_function.name is 'name of the function';
comment on column deferred.__deferred_function.max_running is 'attempts at once, all workers together; NULL: no limit';
comment on column deferred.__deferred_function.rate is 'attempts a second, all workers together; NULL: no limit';
comment on column deferred.__deferred_function.burst is 'attempts that may start at once after a pause, where there is a rate; NULL: 1';

create table deferred.__deferred_limit (
    kind      text collate "C" not null check (kind in ('queue', 'function', 'key')),
    queue     text collate "C" not null,
    name      text collate "C" not null,
    running   bigint[] not null default '{}',
    tokens    double precision,
    tokens_at timestamptz,
    used_at   timestamptz not null default clock_timestamp(),
    primary key (kind, queue, name)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
comment on table  deferred.__deferred_limit is 'where limits stand; a row is locked by the claim that uses it and made by the first one';
comment on column deferred.__deferred_limit.kind is 'what is limited: a queue, a function or a concurrency key';
comment on column deferred.__deferred_limit.queue is 'the queue, or that of the key; empty for a function';
comment on column deferred.__deferred_limit.name is 'the function, or the hash of the key; empty for a queue';
comment on column deferred.__deferred_limit.running is 'ids of jobs that may be running; one counts while its hot row is claimed and the lease runs';
comment on column deferred.__deferred_limit.tokens is 'attempts that might have started at tokens_at; NULL: as many as burst says';
comment on column deferred.__deferred_limit.tokens_at is 'when tokens was counted (database clock)';
comment on column deferred.__deferred_limit.used_at is 'last claim, or last look by deferred.maintain(), which removes rows of keys no hot job has';

-- ---------------------------------------------------------------- jobs

alter table deferred.__deferred add column concurrency_key text collate "C", add column concurrency integer;
comment on column deferred.__deferred.concurrency_key is 'of all hot jobs of the queue with this key at most so many run at once; 1 to 1000 characters';
comment on column deferred.__deferred.concurrency is 'how many, 1 to 10000; NULL: 1, and then strictly one after the other in the order of their ids';

alter table deferred.__deferred_hot
    add column limited boolean not null default false,
    add column bounded boolean not null default false,
    add column concurrency_key text collate "C",
    add column concurrency integer;
comment on column deferred.__deferred_hot.limited is 'true: claimed by deferred.__claim_limited() only';
comment on column deferred.__deferred_hot.bounded is 'true: counts for max_length of its queue';
comment on column deferred.__deferred_hot.concurrency_key is 'copied from __deferred';
comment on column deferred.__deferred_hot.concurrency is 'copied from __deferred';

drop index deferred.__deferred_hot_ready;
create index __deferred_hot_ready on deferred.__deferred_hot (queue, priority desc, xid, id) where due_at is null and not limited;
-- One lane for each queue and function: no claim walks over jobs of a function that is at its limit.
create index __deferred_hot_limited on deferred.__deferred_hot (queue, fn, priority desc, id)
    where limited and due_at is null and concurrency_key is null;
-- One lane for each key, in the order of ids: a job waiting for a retry keeps its place. By a hash of the key, so that
-- a search can begin at a random one.
create index __deferred_hot_concurrency on deferred.__deferred_hot (queue, hashtextextended(concurrency_key, 0), id)
    where concurrency_key is not null;
create index __deferred_hot_bounded on deferred.__deferred_hot (queue) where bounded;

-- ---------------------------------------------------------------- deferring

create function deferred.__concurrency_ok(key text, n integer) returns boolean
language sql immutable
as $$
    select not coalesce(length(key) not between 1 and 1000 or n not between 1 and 10000 or (key is null and n is not null), false)
$$;
comment on function deferred.__concurrency_ok(text, integer) is 'true if these options of a job are in range';

create function deferred.__is_limited(queue text, fn text, concurrency_key text) returns boolean
language sql stable
as $$
    select $3 is not null
        or exists (select from deferred.__deferred_queue q where q.name = $1 and coalesce(q.max_running, q.rate) is not null)
        or exists (select from deferred.__deferred_function f where f.name = $2)
$$;
comment on function deferred.__is_limited(text, text, text) is 'true: a limit may hold back such a job';

create function deferred.__queue_expiry(queue text, since timestamptz) returns timestamptz
language sql stable
as $$
    select $2 + q.ttl_ms * interval '1 millisecond' from deferred.__deferred_queue q where q.name = $1
$$;
comment on function deferred.__queue_expiry(text, timestamptz) is 'when a job without an expiry of its own expires';

create function deferred.__queue_length(queue text, stop integer) returns bigint
language sql stable
as $$
    select count(*) from (select from deferred.__deferred_hot h where h.queue = $1 and h.bounded limit $2) x
$$;
comment on function deferred.__queue_length(text, integer) is 'hot jobs of a queue that has a max_length, counted as far as stop';

drop function deferred.__enqueue(text, json, text, text, integer, bigint, timestamptz, bigint, timestamptz, text, text, integer, bigint,
    bigint, bigint, double precision);
drop function deferred.__enqueue_many(text[], json[], text[], text[], integer[], bigint[], timestamptz[], bigint[], timestamptz[], text[],
    text[], integer[], bigint[], bigint[], bigint[], double precision[]);

create function deferred.__enqueue(
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
    v_due        timestamptz := coalesce($7, case when $6 > 0 then v_now + $6 * interval '1 millisecond' end);
    v_expires    timestamptz := coalesce($9, case when $8 > 0 then v_now + $8 * interval '1 millisecond' end);
    v_allowed    boolean;
    v_max_bytes  integer;
    v_limited    boolean;
    v_ttl_ms     bigint;
    v_max_length integer;
    v_drop       boolean;
    v_removed    boolean;
    v_marked     boolean;
    v_id         bigint;
    v_old        record;
    v_actor      name := deferred.__actor();
begin
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
    -- One look at all tables. v_allowed is NULL for a role without rows, which may defer anything.
    select (select bool_or((g.queue is null or g.queue = v_queue) and (g.fn is null or g.fn = v_fn))
            from deferred.__deferred_grant g where g.role in (v_actor, session_user)),
           q.params_max_bytes, q.ttl_ms, q.max_length, q.on_full = 'drop',
           $17 is not null or q.max_running is not null or q.rate is not null
           or exists (select from deferred.__deferred_function f where f.name = v_fn),
           q.removed_at is not null, q.limited_jobs
    into v_allowed, v_max_bytes, v_ttl_ms, v_max_length, v_drop, v_limited, v_removed, v_marked
    from deferred.__deferred_queue q where q.name = v_queue;
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
    return v_id;
end
$$;
comment on function deferred.__enqueue is 'stores one job; what deferred.defer() and the C library call';

create or replace function deferred.defer(fn text, params json default '{}', opts json default null) returns bigint
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    k text;
    v text;
    o jsonb := '{}';
begin
    if opts is null then
        return deferred.__enqueue(fn, params, null, null, null, null, null, null, null, null, null, null, null, null, null, null);
    end if;
    if json_typeof(opts) <> 'object' then
        raise exception using errcode = '22023', message = format('opts are a JSON %s, not an object', json_typeof(opts)),
            hint = 'for example {"queue": "mail", "delay": "5s"}';
    end if;
    for k, v in select * from json_each_text(opts) loop
        if k not in ('queue', 'label', 'priority', 'delay', 'run_at', 'expires', 'expires_at', 'key', 'on_duplicate',
                     'max_attempts', 'timeout', 'backoff_floor', 'backoff_ceiling', 'backoff_exponent', 'concurrency_key',
                     'concurrency') then
            raise exception using errcode = '22023', message = format('unknown option %s', quote_ident(left(k, 200))),
                hint = 'options: queue, label, priority, delay, run_at, expires, expires_at, key, on_duplicate, '
                       'max_attempts, timeout, backoff_floor, backoff_ceiling, backoff_exponent, concurrency_key, concurrency';
        end if;
        -- Checked by pattern: an exception block would cost every call a subtransaction.
        if (k in ('priority', 'max_attempts', 'concurrency') and v !~ '^-?[0-9]{1,9}$')
           or (k = 'backoff_exponent' and v !~ '^[0-9]{1,3}(\.[0-9]{1,9})?$') then
            raise exception using errcode = '22023', message = format('invalid value %L for option "%s"', left(v, 200), k),
                hint = 'it takes a number';
        end if;
        o := o || jsonb_build_object(k, v);
    end loop;
    return deferred.__enqueue(fn, params, o->>'queue', o->>'label', (o->>'priority')::integer,
        deferred.__ms('delay', o->>'delay'), (o->>'run_at')::timestamptz,
        deferred.__ms('expires', o->>'expires'), (o->>'expires_at')::timestamptz,
        o->>'key', o->>'on_duplicate', (o->>'max_attempts')::integer, deferred.__ms('timeout', o->>'timeout'),
        deferred.__ms('backoff_floor', o->>'backoff_floor'), deferred.__ms('backoff_ceiling', o->>'backoff_ceiling'),
        (o->>'backoff_exponent')::double precision, o->>'concurrency_key', (o->>'concurrency')::integer);
end
$$;

create function deferred.__enqueue_many(
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
    return query select unnest(v_ids);
end
$$;
comment on function deferred.__enqueue_many is 'stores many jobs in one statement; what deferred.defer_many() and the C library call';

create or replace function deferred.defer_many(jobs json) returns setof bigint
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    bad record;
begin
    if json_typeof(jobs) is distinct from 'array' then
        raise exception using errcode = '22023', message = format('jobs are a JSON %s, not an array', coalesce(json_typeof(jobs), 'null')),
            hint = 'for example [{"fn": "noop"}, {"fn": "send_mail", "params": {}, "queue": "mail"}]';
    end if;
    select e.n, json_typeof(e.job) as kind into bad
    from json_array_elements(jobs) with ordinality as e(job, n) where json_typeof(e.job) <> 'object' limit 1;
    if found then
        raise exception using errcode = '22023', message = format('job %s is a JSON %s, not an object', bad.n, bad.kind);
    end if;
    select e.n, k.name into bad
    from json_array_elements(jobs) with ordinality as e(job, n), json_object_keys(e.job) as k(name)
    where k.name not in ('fn', 'params', 'queue', 'label', 'priority', 'delay', 'run_at', 'expires', 'expires_at', 'key',
        'on_duplicate', 'max_attempts', 'timeout', 'backoff_floor', 'backoff_ceiling', 'backoff_exponent',
        'concurrency_key', 'concurrency')
    limit 1;
    if found then
        raise exception using errcode = '22023', message = format('job %s: unknown option %s', bad.n, quote_ident(left(bad.name, 200)));
    end if;
    -- One look at each job; params by "->", which keeps them byte for byte.
    return query select m.* from (
        select array_agg(r.fn order by e.n) as fn, array_agg(coalesce(e.job->'params', '{}') order by e.n) as params,
               array_agg(r.queue order by e.n) as queue, array_agg(r.label order by e.n) as label,
               array_agg(r.priority order by e.n) as priority, array_agg(deferred.__ms('delay', r.delay) order by e.n) as delay_ms,
               array_agg(r.run_at order by e.n) as run_at, array_agg(deferred.__ms('expires', r.expires) order by e.n) as expires_ms,
               array_agg(r.expires_at order by e.n) as expires_at, array_agg(r.key order by e.n) as key,
               array_agg(r.on_duplicate order by e.n) as on_duplicate, array_agg(r.max_attempts order by e.n) as max_attempts,
               array_agg(deferred.__ms('timeout', r.timeout) order by e.n) as timeout_ms,
               array_agg(deferred.__ms('backoff_floor', r.backoff_floor) order by e.n) as backoff_floor_ms,
               array_agg(deferred.__ms('backoff_ceiling', r.backoff_ceiling) order by e.n) as backoff_ceiling_ms,
               array_agg(r.backoff_exponent order by e.n) as backoff_exponent,
               case when count(r.concurrency_key) > 0 then array_agg(r.concurrency_key order by e.n) end as concurrency_key,
               array_agg(r.concurrency order by e.n) as concurrency
        from json_array_elements(jobs) with ordinality as e(job, n)
        cross join lateral json_to_record(e.job) as r(fn text, queue text, label text, priority integer, delay text, run_at timestamptz,
            expires text, expires_at timestamptz, key text, on_duplicate text, max_attempts integer, timeout text,
            backoff_floor text, backoff_ceiling text, backoff_exponent double precision,
            concurrency_key text, concurrency integer)) a
    cross join lateral deferred.__enqueue_many(a.fn, a.params, a.queue, a.label, a.priority, a.delay_ms, a.run_at, a.expires_ms,
        a.expires_at, a.key, a.on_duplicate, a.max_attempts, a.timeout_ms, a.backoff_floor_ms, a.backoff_ceiling_ms, a.backoff_exponent,
        a.concurrency_key, a.concurrency) m;
end
$$;

-- ---------------------------------------------------------------- retrying, maintenance

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
    return true;
exception when unique_violation then
    raise exception using errcode = '23505', message = format('job %s has key %L, which a newer job has too', $1, d.key),
        hint = 'cancel the newer job, or defer the call again';
end
$$;

create or replace function deferred.maintain() returns integer
language plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '500ms'
as $$
declare
    v_made  integer := 0;
    v_week  date;
    v_last  bigint;
    v_lo    bigint;
    v_width constant bigint := 10000000;
    v_utc   constant text := 'UTC';
begin
    perform deferred.__forget_keys(1000);
    -- The common case costs two catalog look-ups and takes no lock.
    if to_regclass(format('deferred.%I', '__deferred_log_' || to_char(date_trunc('week', now() at time zone v_utc) + interval '3 weeks', 'YYYYMMDD'))) is not null then
        select last_value into v_last from deferred.__deferred_id_seq;
        if to_regclass(format('deferred.%I', '__deferred_' || ((v_last + v_width / 2) / v_width))) is not null then
            return 0;
        end if;
    end if;
    if not pg_try_advisory_xact_lock(hashtextextended('deferred.maintain', 0)) then return 0; end if;

    for i in 0..4 loop  -- a month ahead: a week without maintenance leaves no gap
        v_week := (date_trunc('week', now() at time zone v_utc) + i * interval '1 week')::date;
        if to_regclass(format('deferred.%I', '__deferred_log_' || to_char(v_week, 'YYYYMMDD'))) is null then
            perform deferred.__add_partition('__deferred_log', '__deferred_log_' || to_char(v_week, 'YYYYMMDD'), 'finished_at',
                v_week || ' 00:00:00+00', (v_week + 7) || ' 00:00:00+00');
            v_made := v_made + 1;
        end if;
    end loop;

    select last_value into v_last from deferred.__deferred_id_seq;
    for i in v_last / v_width .. (v_last + v_width / 2) / v_width loop
        if to_regclass(format('deferred.%I', '__deferred_' || i)) is null then
            v_lo := i * v_width;
            perform deferred.__add_partition('__deferred', '__deferred_' || i, 'id', v_lo::text, (v_lo + v_width)::text);
            v_made := v_made + 1;
        end if;
    end loop;
    return v_made;
exception when lock_not_available then
    return 0;  -- somebody reads for long: the next call does it, weeks before it matters
end
$$;

-- ---------------------------------------------------------------- claiming

-- Claim up to n marked jobs. One call in a transaction, and the last thing in it but the commit.
--
-- Each statement of this function has a snapshot of its own. So what the last one reads, while the rows of the limits are
-- locked, includes all that earlier holders of these locks have done; a row that somebody else has locked is not waited
-- for: then nothing is taken that this limit is about, and `seen` says that asking again makes sense.
create function deferred.__claim_limited(
    queues text[], n integer, n_rated integer, worker bigint, receipt bigint, lease_ms bigint, max_attempts integer,
    unknown text[], held bigint[], seed bigint)
returns table (id bigint, attempt integer, attempt_base integer, job_max_attempts integer, timeout_ms bigint, backoff_floor_ms bigint,
    backoff_ceiling_ms bigint, backoff_exponent double precision, created_at timestamptz, wait_us bigint, fn text, label text,
    params json, job_queue text, job_priority integer, job_lease_ms bigint, seen bigint, wait_ms bigint, start_ms bigint)
-- Lists of up to a hundred limits meet each other here; what the session rules out is right for the big tables.
language plpgsql set search_path = pg_catalog, pg_temp set enable_hashjoin = on
as $$
#variable_conflict use_column
declare
    v_keys_looked constant integer := 300;  -- keys looked at in a queue, and
    v_keys_taken  constant integer := 100;  -- found free: then the search ends
    v_now    timestamptz := clock_timestamp();
    v_pivot  bigint := hashint8extended($10, 0);
    v_at     bigint;
    v_looked integer;
    v_found  integer;
    v_fn     text collate "C";
    v_queue  text collate "C";
    v_head   record;
    v_more   bigint[];
    -- lanes of a queue and a function that hold ready jobs without a key
    v_lane_queue text[] := '{}';
    v_lane_fn    text[] := '{}';
    -- jobs with a key whose turn it is
    v_key_job    bigint[] := '{}';
    v_key_queue  text[] := '{}';
    v_key_fn     text[] := '{}';
    v_key_hash   text[] := '{}';
    -- limits that matter for these, and the rows of them that are ours
    v_queues     text[];
    v_fns        text[];
    v_kind       text[];
    v_of         text[];
    v_name       text[];
    v_wanted     bigint;
begin
    for v_queue in select q.name from deferred.__deferred_queue q
                   where q.limited_jobs and not q.paused and ($1 is null or q.name = any ($1)) loop
        v_fn := '';
        loop
            select x.fn into v_fn from deferred.__deferred_hot x
            where x.queue = v_queue and x.limited and x.concurrency_key is null and x.due_at is null and x.fn > v_fn
            order by x.fn limit 1;
            exit when not found;
            continue when v_fn = any ($8);
            v_lane_queue := v_lane_queue || v_queue::text;
            v_lane_fn := v_lane_fn || v_fn::text;
        end loop;

        v_looked := 0;
        v_found := 0;
        v_at := v_pivot;
        for lap in 0..1 loop
            while v_looked < v_keys_looked and v_found < least(n, v_keys_taken) loop
                -- The first job of the next key. One that was deferred with a delay has not arrived yet; one that waits
                -- for its next attempt has.
                select x.id, x.fn, x.due_at, x.visible_at, x.concurrency, hashtextextended(x.concurrency_key, 0) as hash into v_head
                from deferred.__deferred_hot x
                where x.queue = v_queue and x.concurrency_key is not null and hashtextextended(x.concurrency_key, 0) >= v_at
                  and (x.due_at is null or x.attempt > x.attempt_base)
                order by x.queue, hashtextextended(x.concurrency_key, 0), x.id limit 1;
                exit when not found or (lap = 1 and v_head.hash >= v_pivot);
                v_looked := v_looked + 1;
                v_more := null;
                if v_head.concurrency > 1 then
                    select array_agg(y.id) into v_more from (
                        select x.id from deferred.__deferred_hot x
                        where x.queue = v_queue and x.concurrency_key is not null
                          and hashtextextended(x.concurrency_key, 0) = v_head.hash and x.concurrency > 1
                          and x.due_at is null and x.visible_at <= v_now and x.fn <> all ($8)
                        order by x.queue, hashtextextended(x.concurrency_key, 0), x.id limit least(n, v_head.concurrency)) y;
                elsif v_head.due_at is null and v_head.visible_at <= v_now and v_head.fn <> all ($8) then
                    v_more := array[v_head.id];
                end if;
                if v_more is not null then
                    v_found := v_found + cardinality(v_more);
                    v_key_job := v_key_job || v_more;
                    v_key_queue := v_key_queue || array_fill(v_queue::text, array[cardinality(v_more)]);
                    v_key_hash := v_key_hash || array_fill(v_head.hash::text, array[cardinality(v_more)]);
                    if v_head.fn <> all (v_key_fn) then v_key_fn := v_key_fn || v_head.fn::text; end if;
                end if;
                exit when v_head.hash = 9223372036854775807;
                v_at := v_head.hash + 1;
            end loop;
            v_at := -9223372036854775808;
        end loop;
    end loop;
    if v_lane_fn = '{}' and v_key_job = '{}' then
        return;
    end if;

    v_queues := array(select q.name from deferred.__deferred_queue q
                      where coalesce(q.max_running, q.rate) is not null and q.name = any (v_lane_queue || v_key_queue));
    -- Those of a key with concurrency above 1 may have other functions than its first job.
    v_fns := array(select f.name from deferred.__deferred_function f where v_key_fn <> '{}' or f.name = any (v_lane_fn));
    select array_agg(w.kind), array_agg(w.queue), array_agg(w.name), count(*) into v_kind, v_of, v_name, v_wanted
    from (select 'queue' as kind, q as queue, '' as name from unnest(v_queues) q
          union all select 'function', '', f from unnest(v_fns) f
          union all (select distinct 'key', k.queue, k.hash from unnest(v_key_queue, v_key_hash) k(queue, hash))) w;
    insert into deferred.__deferred_limit (kind, queue, name)
    select w.kind, w.queue, w.name
    from (select w.* from unnest(v_kind, v_of, v_name) w(kind, queue, name)
          where not exists (select from deferred.__deferred_limit l
                            where l.kind = w.kind collate "C" and l.queue = w.queue collate "C" and l.name = w.name collate "C")
          offset 0) w
    -- Else an insert would wait for another claim that is adding the same row.
    where pg_try_advisory_xact_lock(hashtextextended('deferred.limit ' || w.kind || ' ' || w.queue || ' ' || w.name, 0))
    on conflict do nothing;
    with ours as materialized (
        select l.kind, l.queue, l.name
        from unnest(v_kind, v_of, v_name) w(kind, queue, name)
        join deferred.__deferred_limit l
          on l.kind = w.kind collate "C" and l.queue = w.queue collate "C" and l.name = w.name collate "C"
        for update of l skip locked)
    select coalesce(array_agg(o.kind), '{}'), coalesce(array_agg(o.queue), '{}'), coalesce(array_agg(o.name), '{}')
    into v_kind, v_of, v_name from ours o;

    v_now := clock_timestamp();  -- later than any holder before us looked at the clock
    return query
    with lim as materialized (
        select l.kind, l.queue, l.name, r.still, s.rate, t.tokens,
               greatest(0, least(1000000000, s.max_running - cardinality(r.still), floor(t.tokens)))::integer as room,
               cardinality(r.still) as running
        from unnest(v_kind, v_of, v_name) w(kind, queue, name)
        join deferred.__deferred_limit l
          on l.kind = w.kind collate "C" and l.queue = w.queue collate "C" and l.name = w.name collate "C"
        cross join lateral (
            select array(select h.id from unnest(l.running) i join deferred.__deferred_hot h on h.id = i
                         where h.receipt is not null and h.visible_at > v_now) as still) r
        left join lateral (
            select q.max_running, q.rate, coalesce(q.burst, 1) as burst from deferred.__deferred_queue q
            where l.kind = 'queue' and q.name = l.queue
            union all
            select f.max_running, f.rate, coalesce(f.burst, 1) from deferred.__deferred_function f
            where l.kind = 'function' and f.name = l.name) s on true
        cross join lateral (
            select case when s.rate is not null then
                least(s.burst, coalesce(l.tokens + greatest(0, extract(epoch from v_now - l.tokens_at))::double precision * s.rate, s.burst))
                end as tokens) t),
    -- A limit that is in force but not ours closes what it is about.
    open_lane as materialized (
        select g.queue, g.fn, least(q.rate, f.rate) as rate, least(n, q.room, f.room) as room
        from unnest(v_lane_queue, v_lane_fn) g(queue, fn)
        left join lim q on q.kind = 'queue' and q.queue = g.queue
        left join lim f on f.kind = 'function' and f.name = g.fn
        where (q.room is not null or g.queue <> all (v_queues)) and (f.room is not null or g.fn <> all (v_fns))),
    cand as materialized (
        select x.tid, x.id, x.priority, g.queue, g.fn, null as hash, g.rate
        from open_lane g
        cross join lateral (
            select y.ctid as tid, y.id, y.priority from deferred.__deferred_hot y
            where y.queue = g.queue collate "C" and y.fn = g.fn collate "C" and y.limited and y.concurrency_key is null
              and y.due_at is null and y.visible_at <= v_now
            order by y.queue, y.fn, y.priority desc, y.id limit g.room) x
        union all
        select k.tid, k.id, k.priority, k.queue, k.fn, k.hash, least(q.rate, f.rate)
        from (select h.ctid as tid, h.id, h.priority, h.queue, h.fn, j.hash, coalesce(h.concurrency, 1) as concurrency, l.running,
                     row_number() over (partition by h.queue, j.hash order by h.id) as turn
              from unnest(v_key_job, v_key_hash) j(id, hash)
              join deferred.__deferred_hot h on h.id = j.id
              join lim l on l.kind = 'key' and l.queue = h.queue and l.name = j.hash
              where h.due_at is null and h.visible_at <= v_now) k
        left join lim q on q.kind = 'queue' and q.queue = k.queue
        left join lim f on f.kind = 'function' and f.name = k.fn
        where k.turn <= k.concurrency - k.running
          and (q.room is not null or k.queue <> all (v_queues)) and (f.room is not null or k.fn <> all (v_fns))),
    -- Each cut leaves fewer, so no limit is exceeded; what a cut wastes, the next claim takes.
    by_fn as materialized (
        select c.*, row_number() over (partition by c.fn order by c.priority desc, c.id) as turn from cand c),
    by_queue as materialized (
        select c.tid, c.id, c.priority, c.queue, c.fn, c.hash, c.rate,
               row_number() over (partition by c.queue order by c.priority desc, c.id) as turn
        from by_fn c left join lim f on f.kind = 'function' and f.name = c.fn
        where c.turn <= coalesce(f.room, 2147483647)),
    shared as materialized (
        select c.tid, c.id, c.queue, c.fn, c.hash, c.rate, q.visibility_timeout_ms,
               (c.turn - 1 - ln(((hashtextextended(c.queue, $10) & 9007199254740991) + 1)::float8 / 9007199254740992::float8))
               / q.weight as turn
        from by_queue c join deferred.__deferred_queue q on q.name = c.queue
        left join lim l on l.kind = 'queue' and l.queue = c.queue
        where c.turn <= coalesce(l.room, n)),
    pick as materialized (
        select s.* from (select x.*, row_number() over (partition by x.rate is null order by x.turn, x.id) as at from shared x) s
        where s.rate is null or s.at <= $3
        order by s.turn, s.id limit n),
    row as materialized (
        select h.ctid as tid, h.id, h.attempt, h.attempt_base, h.receipt, h.worker, h.started_at, h.visible_at, h.expires_at,
               h.priority, p.queue, p.fn, p.hash, p.turn, p.rate, coalesce(p.visibility_timeout_ms, $6) as lease_ms
        from pick p join deferred.__deferred_hot h on h.ctid = p.tid
        where h.due_at is null and h.visible_at <= v_now
        for update of h skip locked),
    job as materialized (
        select r.*, r.expires_at <= v_now as expired,
               case when r.receipt is null then false
                    else r.attempt - r.attempt_base >= coalesce(
                         (select d.max_attempts from deferred.__deferred d where d.id = r.id),
                         (select q.max_attempts from deferred.__deferred_queue q where q.name = r.queue), $7) end as used_up
        from row r),
    taken as (
        update deferred.__deferred_hot h
        set attempt = h.attempt + 1, receipt = $5, worker = $4, started_at = now(),
            visible_at = now() + j.lease_ms * interval '1 millisecond'
        from job j where h.ctid = j.tid and j.expired is not true and not j.used_up
        returning j.*),
    gone as (
        delete from deferred.__deferred_hot h using job j
        where h.ctid = j.tid and (j.expired or j.used_up)
        returning j.*),
    lost as (
        insert into deferred.__deferred_log (job_id, attempt, outcome, final, error, started_at, worker, receipt)
        select l.id, l.attempt, 'lost', l.used_up, 'the lease ended before a result was recorded', l.started_at, l.worker, l.receipt
        from (select t.id, t.attempt, t.used_up, t.started_at, t.worker, t.receipt from taken t
              union all select g.id, g.attempt, g.used_up, g.started_at, g.worker, g.receipt from gone g) l
        where l.receipt is not null),
    expired as (
        insert into deferred.__deferred_log (job_id, attempt, outcome, final, error)
        select g.id, 0, 'expired', true, format('not started before %s', g.expires_at)
        from gone g where not g.used_up),
    held as (
        update deferred.__deferred_worker w
        set seen_at = now(), held = coalesce($9, w.held) || coalesce((select array_agg(t.id) from taken t), '{}')
        where w.id = $4),
    new as materialized (
        select u.kind, u.queue, u.name, array_agg(u.id) as ids
        from (select 'queue' as kind, t.queue, '' as name, t.id from taken t
              union all select 'function', '', t.fn, t.id from taken t
              union all select 'key', t.queue, t.hash, t.id from taken t where t.hash is not null) u
        group by u.kind, u.queue, u.name),
    stand as (
        update deferred.__deferred_limit l
        set running = m.still || coalesce(a.ids, '{}'), tokens = m.tokens - coalesce(cardinality(a.ids), 0), tokens_at = v_now,
            used_at = v_now
        from lim m left join new a on a.kind = m.kind and a.queue = m.queue and a.name = m.name
        where l.kind = m.kind and l.queue = m.queue and l.name = m.name and (a.ids is not null or m.still <> l.running))
    select t.id, t.attempt + 1, t.attempt_base, coalesce(d.max_attempts, q.max_attempts), d.timeout_ms,
           coalesce(d.backoff_floor_ms, q.backoff_floor_ms), coalesce(d.backoff_ceiling_ms, q.backoff_ceiling_ms),
           coalesce(d.backoff_exponent, q.backoff_exponent), d.created_at,
           (extract(epoch from now() - coalesce(case when t.receipt is null then t.visible_at end, t.started_at)) * 1000000)::bigint,
           d.fn::text, d.label, d.params, t.queue::text, t.priority::integer, t.lease_ms, s.n,
           (select greatest(1, ceil(min((1 - m.tokens) / m.rate) * 1000))::bigint from lim m where m.tokens < 1 having count(*) > 0),
           case when t.rate is not null then greatest(40, least(86400000, floor(800 / t.rate)))::bigint end
    from (select (select count(*) from pick) + (v_wanted > cardinality(v_kind))::integer as n) s
    left join (taken t join deferred.__deferred d on d.id = t.id join deferred.__deferred_queue q on q.name = t.queue) on true
    order by t.turn, t.id;
end
$$;
comment on function deferred.__claim_limited is 'claims marked jobs within their limits; what sql/queries/job_claim_limited.sql calls';

create function deferred.__forget_keys(batch integer) returns integer
language plpgsql
as $$
declare
    v_rows integer;
    v_locked tid[];
begin
    if not exists (select from deferred.__deferred_limit l where l.kind = 'key' and l.used_at < clock_timestamp() - interval '1 minute') then
        return 0;
    end if;
    -- Locked first: whether a job has the key is then asked with a snapshot that no claim using it comes after.
    with l as materialized (
        select x.ctid as tid from deferred.__deferred_limit x
        where x.kind = 'key' and x.used_at < clock_timestamp() - interval '1 minute' limit batch for update skip locked)
    select array_agg(l.tid) into v_locked from l;
    delete from deferred.__deferred_limit l
    where l.ctid = any (v_locked) and not exists (
        select from deferred.__deferred_hot h
        where h.queue = l.queue and h.concurrency_key is not null and hashtextextended(h.concurrency_key, 0) = l.name::bigint);
    get diagnostics v_rows = row_count;
    update deferred.__deferred_limit l set used_at = clock_timestamp() where l.ctid = any (v_locked);
    return v_rows;
end
$$;
comment on function deferred.__forget_keys(integer) is 'part of deferred.maintain(): removes what is kept of concurrency keys that no hot job has';

-- ---------------------------------------------------------------- rules

-- As in 0003, and with what the queue is set to: limits, ttl, and max_length, by which rows without room are dropped or
-- count as failed. A next run finds them again.
create or replace function deferred.__rule_run(name text, estimate double precision, ticks boolean,
    out queued bigint, out skipped bigint, out failed bigint, out examples json)
language plpgsql security definer set search_path = pg_catalog, pg_temp set jit = off set work_mem = '64MB'
as $$
#variable_conflict use_column
declare
    r         deferred.__deferred_rule := deferred.__rule_get($1, true);
    v_start   timestamptz := clock_timestamp();
    v_now     timestamptz := clock_timestamp();
    v_owner   name := (select x.rolname from pg_roles x where x.oid = r.owner);
    v_delay   bigint := deferred.__ms('delay', r.opts->>'delay');
    v_due     timestamptz := case when v_delay > 0 then v_now + v_delay * interval '1 millisecond' end;
    v_expires timestamptz := v_now + nullif(deferred.__ms('expires', r.opts->>'expires'), 0) * interval '1 millisecond';
    v_label   text := r.opts->>'label';
    v_max_attempts integer := (r.opts->>'max_attempts')::integer;
    v_timeout bigint := deferred.__ms('timeout', r.opts->>'timeout');
    v_floor   bigint := deferred.__ms('backoff_floor', r.opts->>'backoff_floor');
    v_ceiling bigint := deferred.__ms('backoff_ceiling', r.opts->>'backoff_ceiling');
    v_exponent double precision := (r.opts->>'backoff_exponent')::double precision;
    v_max_bytes integer;
    v_ttl_ms  bigint;
    v_max_length integer;
    v_drop    boolean;
    v_limited boolean := deferred.__is_limited(r.queue, r.fn, null);
    v_room    bigint;
    v_rows    bigint;
    v_jobs    bigint;
begin
    -- Who calls could have put anything there; what is run with the rights of this function's owner otherwise.
    if (select count(*) <> 1 or not bool_and(p.prosecdef and p.proowner = r.owner and p.pronargs = 0 and p.xmin = pg_current_xact_id()::xid)
        from pg_proc p where p.pronamespace = pg_my_temp_schema() and p.proname = '__deferred_rule_rows') then
        raise exception using errcode = '55000', message = format('rule %L was not opened in this transaction', r.name);
    end if;
    if not deferred.__rule_may_defer(v_owner, r.queue, r.fn) then
        raise exception using errcode = '42501', message = format('the owner of rule %L, or who runs it, may not defer %L to queue %L', r.name, r.fn, r.queue),
            hint = 'an administrator grants it by a row in deferred.__deferred_grant';
    end if;
    insert into deferred.__deferred_queue (name) values (r.queue) on conflict do nothing;
    update deferred.__deferred_queue q set limited_jobs = q.limited_jobs or v_limited, removed_at = null
    where q.name = r.queue and (q.removed_at is not null or (v_limited and not q.limited_jobs));
    select q.params_max_bytes, q.ttl_ms, q.max_length, q.on_full = 'drop' into v_max_bytes, v_ttl_ms, v_max_length, v_drop
    from deferred.__deferred_queue q where q.name = r.queue;
    v_expires := coalesce(v_expires, v_now + v_ttl_ms * interval '1 millisecond');
    v_room := v_max_length - deferred.__queue_length(r.queue, v_max_length);
    -- The planner takes __rule_fetch() to return its 10,000 rows always.
    if $2 > 20000 then perform set_config('enable_nestloop', 'off', true); end if;

    with src as materialized (
        select s.n, s.key, s.params, s.bad,
               case when s.bad is null and s.hot is null and (v_room is null or s.taken <= v_room) then nextval('deferred.__deferred_id_seq') end as id
        from (select t.n, t.key, t.params, t.hot, t.taken,
                     case when t.bad is null and t.hot is null and t.taken > v_room and not v_drop
                          then format('queue %L is full: it holds %s jobs', r.queue, v_max_length) else t.bad end as bad
              from (select row_number() over w as n, f.key, f.params, f.hot, f.bad,
                           count(*) filter (where v_room is not null and f.hot is null and f.bad is null) over (w rows unbounded preceding) as taken
                    from (select f.key, case when h.id is null then f.params end as params, h.id as hot,
                                 case when f.key is null then 'its key is NULL'
                                      when length(f.key) not between 1 and 1000
                                      then format('its key has %s characters, 1 to 1000 are taken', length(f.key))
                                      when octet_length(f.params::text) > v_max_bytes
                                      then format('params have %s bytes, queue %L takes %s', octet_length(f.params::text), r.queue, v_max_bytes)
                                      when octet_length(f.params::text) > 512 and not deferred.__depth_ok(f.params)
                                      then 'params nest deeper than 512 levels' end as bad
                          from deferred.__rule_fetch() f
                          left join deferred.__deferred_hot h on h.queue = r.queue and h.key = f.key) f
                    window w as (order by f.key collate "C")) t) s),
    hot as (
        insert into deferred.__deferred_hot (id, queue, fn, priority, due_at, visible_at, expires_at, key, limited, bounded)
        select s.id, r.queue, r.fn, r.priority, v_due,
               case when ticks and s.n % 8192 = 0 then deferred.__rule_tick('queued', s.n, coalesce(v_due, v_now)) else coalesce(v_due, v_now) end,
               v_expires, s.key, v_limited, v_max_length is not null
        from src s where s.id is not null
        on conflict (queue, key) where key is not null do nothing
        returning id),
    job as (
        insert into deferred.__deferred (id, queue, fn, params, label, key, priority, run_at, expires_at, max_attempts, timeout_ms,
            backoff_floor_ms, backoff_ceiling_ms, backoff_exponent, created_at, created_by)
        select s.id, r.queue, r.fn, s.params, v_label, s.key, r.priority, v_due, v_expires, v_max_attempts, v_timeout, v_floor, v_ceiling,
               v_exponent, case when ticks and s.n % 8192 = 0 then deferred.__rule_tick('stored', s.n, v_now) else v_now end, v_owner
        from hot h join src s on s.id = h.id
        returning 1)
    select (select count(*) from hot), (select count(*) from job), count(*), count(s.bad),
           (select coalesce(json_agg(json_build_object('key', left(e.key, 100), 'params', left(e.params::text, 200), 'error', e.bad)), '[]')
            from (select x.key, x.params, x.bad from src x where x.bad is not null limit 3) e)
    into queued, v_jobs, v_rows, failed, examples
    from src s;
    if v_jobs <> queued then
        raise exception using errcode = 'XX000', message = format('%s jobs were queued, %s stored', queued, v_jobs);
    end if;
    skipped := v_rows - queued - failed;
    update deferred.__deferred_rule x
    set last_run_at = v_start, last_run_ms = extract(epoch from clock_timestamp() - v_start) * 1000, last_run_by = deferred.__actor(),
        last_queued = queued, last_skipped = skipped, last_failed = failed, last_error = null
    where x.id = r.id;
end
$$;

-- ---------------------------------------------------------------- administration of queues

-- The settings are given in the units of the columns; one that is null goes back to its default.
create function deferred.__queue_set(name text, settings json, add boolean default false) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    v_old deferred.__deferred_queue;
    v_new deferred.__deferred_queue;
    v_unknown text;
begin
    if json_typeof(settings) is distinct from 'object' then
        raise exception using errcode = '22023', message = format('settings are a JSON %s, not an object', coalesce(json_typeof(settings), 'null'));
    end if;
    select k into v_unknown from json_object_keys(settings) k
    where k not in ('paused', 'params_max_bytes', 'visibility_timeout_ms', 'ttl_ms', 'max_attempts', 'backoff_floor_ms',
        'backoff_ceiling_ms', 'backoff_exponent', 'max_running', 'rate', 'burst', 'max_length', 'on_full', 'fn', 'metadata', 'weight')
    limit 1;
    if found then
        raise exception using errcode = '22023', message = format('unknown setting %s of queue %L', quote_ident(left(v_unknown, 200)), left($1, 200)),
            hint = 'deferred(1) lists the settings';
    end if;
    if $3 then
        if $1 !~ '^[A-Za-z0-9_][A-Za-z0-9_.-]{0,62}$' then
            raise exception using errcode = '22023', message = format('invalid queue name %L', left($1, 200)),
                hint = 'a name has 1 to 63 letters, digits, "_", "." and "-"';
        end if;
        insert into deferred.__deferred_queue (name) values ($1) on conflict do nothing;
        update deferred.__deferred_queue q set removed_at = null where q.name = $1 and q.removed_at is not null;
    end if;
    select * into v_old from deferred.__deferred_queue q where q.name = $1 and q.removed_at is null for update;
    if not found then
        raise exception using errcode = '42704', message = format('no queue %L', left($1, 200)),
            hint = 'a queue is added by the first job deferred to it, or by: deferred queue set NAME --create';
    end if;
    v_new := json_populate_record(v_old, settings);
    v_new.paused := coalesce(v_new.paused, false);
    v_new.params_max_bytes := coalesce(v_new.params_max_bytes, 1048576);
    v_new.on_full := coalesce(v_new.on_full, 'error');
    v_new.weight := coalesce(v_new.weight, 1);
    if v_new.burst is not null and v_new.rate is null then
        raise exception using errcode = '22023', message = format('queue %L has a burst of %s, but no rate', $1, v_new.burst),
            hint = 'set the rate too, or unset the burst';
    end if;
    if v_new.backoff_ceiling_ms < v_new.backoff_floor_ms then
        raise exception using errcode = '22023', message = format('queue %L: back-off ceiling %s ms is below its floor %s ms', $1,
            v_new.backoff_ceiling_ms, v_new.backoff_floor_ms);
    end if;
    if coalesce(v_new.max_running, v_new.rate) is not null then
        v_new.limited_jobs := true;
    end if;
    update deferred.__deferred_queue q
    set (paused, params_max_bytes, visibility_timeout_ms, ttl_ms, max_attempts, backoff_floor_ms, backoff_ceiling_ms, backoff_exponent,
         max_running, rate, burst, max_length, on_full, fn, metadata, weight, limited_jobs)
      = (v_new.paused, v_new.params_max_bytes, v_new.visibility_timeout_ms, v_new.ttl_ms, v_new.max_attempts, v_new.backoff_floor_ms,
         v_new.backoff_ceiling_ms, v_new.backoff_exponent, v_new.max_running, v_new.rate, v_new.burst, v_new.max_length, v_new.on_full,
         v_new.fn, v_new.metadata, v_new.weight, v_new.limited_jobs)
    where q.name = $1;
exception when check_violation then
    raise exception using errcode = '22003', message = format('a setting of queue %L is out of range: %s', $1, left(settings::text, 300)),
        hint = 'deferred(1) lists the settings with their ranges';
end
$$;
comment on function deferred.__queue_set is 'changes settings of a queue; call deferred.__mark() until it is done, where a limit changed';

create function deferred.__function_set(name text, settings json) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    v_new deferred.__deferred_function;
    v_unknown text;
begin
    select k into v_unknown from json_object_keys(settings) k where k not in ('max_running', 'rate', 'burst') limit 1;
    if found then
        raise exception using errcode = '22023', message = format('unknown setting %s of function %L', quote_ident(left(v_unknown, 200)), left($1, 200)),
            hint = 'settings: max_running, rate, burst';
    end if;
    if $1 is null or $1 !~ '^[A-Za-z_][A-Za-z0-9_.]{0,126}$' then
        raise exception using errcode = '22023', message = format('invalid function name %L', left($1, 200)),
            hint = 'a name has 1 to 127 letters, digits, "_" and ".", and begins with a letter or "_"';
    end if;
    select * into v_new from deferred.__deferred_function f where f.name = $1 for update;
    v_new := json_populate_record(v_new, settings);
    if v_new.burst is not null and v_new.rate is null then
        raise exception using errcode = '22023', message = format('function %L has a burst of %s, but no rate', $1, v_new.burst),
            hint = 'set the rate too, or unset the burst';
    end if;
    if coalesce(v_new.max_running, v_new.rate) is null then
        delete from deferred.__deferred_function f where f.name = $1;
        return;
    end if;
    insert into deferred.__deferred_function (name, max_running, rate, burst) values ($1, v_new.max_running, v_new.rate, v_new.burst)
    on conflict (name) do update set max_running = excluded.max_running, rate = excluded.rate, burst = excluded.burst;
exception when check_violation then
    raise exception using errcode = '22003', message = format('a setting of function %L is out of range: %s', $1, left(settings::text, 300)),
        hint = 'max_running: more than 0; rate: 1e-7 to 1e6 a second; burst: 1 to 1000000';
end
$$;
comment on function deferred.__function_set is 'changes the limits of a function; without any it has none. Call deferred.__mark() until it is done';

-- Jobs deferred before a limit was set carry no mark yet: a claim that meets one marks it instead of taking it. This
-- does the same ahead of claims, for some ids on; next_id NULL: all were looked at. Jobs that run are counted from then on.
create function deferred.__mark(from_id bigint, batch integer, out marked bigint, out next_id bigint)
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_queues text[];
begin
    with seen as materialized (
        select h.id, h.limited, h.bounded, deferred.__is_limited(h.queue, h.fn, h.concurrency_key) as to_limit,
               exists (select from deferred.__deferred_queue q where q.name = h.queue and q.max_length is not null) as to_bound
        from deferred.__deferred_hot h where h.id >= from_id order by h.id limit batch),
    row as materialized (
        select h.id, s.to_limit, s.to_bound from seen s join deferred.__deferred_hot h on h.id = s.id
        where s.to_limit <> h.limited or s.to_bound <> h.bounded
        for update of h skip locked),
    done as (
        update deferred.__deferred_hot h set limited = r.to_limit, bounded = r.to_bound, xid = pg_current_xact_id()
        from row r where h.id = r.id
        returning h.id, h.queue, h.fn, h.concurrency_key, h.limited, h.receipt is not null and h.visible_at > clock_timestamp() as runs),
    queue as (
        update deferred.__deferred_queue q set limited_jobs = true
        where not q.limited_jobs and q.name in (select d.queue from done d where d.limited)),
    stand as (
        insert into deferred.__deferred_limit (kind, queue, name, running)
        select r.kind, r.queue, r.name, array_agg(r.id)
        from (select 'queue' as kind, d.queue, '' as name, d.id from done d where d.runs and d.limited
              union all select 'function', '', d.fn, d.id from done d where d.runs and d.limited and d.fn is not null
              union all select 'key', d.queue, hashtextextended(d.concurrency_key, 0)::text, d.id from done d
                        where d.runs and d.concurrency_key is not null) r
        group by r.kind, r.queue, r.name order by r.kind, r.queue, r.name
        on conflict (kind, queue, name) do update set running = __deferred_limit.running || excluded.running)
    select (select count(*) from done), (select array_agg(distinct d.queue) from done d),
           (select max(s.id) + 1 from seen s having count(*) = batch)
    into marked, v_queues, next_id;
    -- A worker may have looked among those without the mark before, and among those with it after this.
    perform deferred.__wake(q) from unnest(v_queues) q;
end
$$;
comment on function deferred.__mark is 'part of "deferred queue set": marks jobs that limits are about, takes the mark from others';

-- Cancel the hot jobs of a queue among the next some ids; next_id NULL: all were looked at.
create function deferred.__queue_clear(queue text, from_id bigint, to_id bigint, batch integer, out cancelled bigint, out next_id bigint)
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
    with seen as materialized (
        select h.id, h.queue from deferred.__deferred_hot h where h.id between $2 and $3 order by h.id limit batch),
    gone as (
        delete from deferred.__deferred_hot h using seen s where h.id = s.id and s.queue = $1
        returning h.id, h.attempt, h.receipt, h.started_at, h.worker),
    log as (
        insert into deferred.__deferred_log (job_id, attempt, outcome, final, error, started_at, worker, receipt)
        select g.id, case when g.receipt is null then 0 else g.attempt end, 'cancelled', true,
               format('queue cleared by %s', deferred.__actor()), g.started_at, g.worker, g.receipt
        from gone g)
    select (select count(*) from gone), (select max(s.id) + 1 from seen s having count(*) = batch) into cancelled, next_id;
end
$$;
comment on function deferred.__queue_clear is 'part of "deferred queue clear": cancels some jobs of a queue';

create function deferred.__queue_rm(name text) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
    if $1 = 'default' then
        raise exception using errcode = '55000', message = 'queue ''default'' cannot be removed',
            hint = 'jobs that name no queue go there; "deferred queue clear default" empties it';
    end if;
    update deferred.__deferred_queue q
    set (paused, params_max_bytes, visibility_timeout_ms, ttl_ms, max_attempts, backoff_floor_ms, backoff_ceiling_ms, backoff_exponent,
         max_running, rate, burst, max_length, on_full, fn, metadata, weight, removed_at)
      = (false, 1048576, null, null, null, null, null, null, null, null, null, null, 'error', null, null, 1, clock_timestamp())
    where q.name = $1 and q.removed_at is null;
    if not found then
        raise exception using errcode = '42704', message = format('no queue %L', left($1, 200));
    end if;
end
$$;
comment on function deferred.__queue_rm(text) is 'part of "deferred queue rm": forgets the settings of a queue and hides it until a job is deferred to it';

-- ---------------------------------------------------------------- what people see

create or replace view deferred.job as
    select d.id, d.queue, d.fn, d.label, d.key, d.priority, d.created_at, d.created_by,
           case when h.id is null then deferred.state(l.outcome)
                when h.due_at is not null then 'delayed'
                when h.receipt is not null and h.visible_at > clock_timestamp() then 'claimed'
                else 'ready' end as state,
           coalesce(h.attempt, l.attempts, 0) as attempt,
           coalesce(h.due_at, h.visible_at) as visible_at,
           h.worker, h.started_at,
           case when h.id is null then l.finished_at end as finished_at,
           l.outcome as last_outcome,
           d.concurrency_key, coalesce(h.limited, false) as limited
    from deferred.__deferred d
    left join deferred.__deferred_hot h using (id)
    left join lateral (
        select last_value(x.outcome) over w as outcome, max(x.attempt) over w as attempts, last_value(x.finished_at) over w as finished_at
        from deferred.__deferred_log x where x.job_id = d.id
        window w as (order by x.finished_at, x.attempt rows between unbounded preceding and unbounded following) limit 1) l on true;

-- ---------------------------------------------------------------- rights

revoke all on all functions in schema deferred from public;
grant execute on function deferred.__enqueue, deferred.__enqueue_many to deferred_producer;
grant execute on function deferred.__claim_limited, deferred.__queue_set, deferred.__function_set, deferred.__mark, deferred.__queue_clear,
    deferred.__queue_rm to deferred_worker;
grant select on deferred.__deferred_function to deferred_worker, deferred_viewer;
grant update (limited_jobs) on deferred.__deferred_queue to deferred_worker;  -- a claim that meets an unmarked job
grant select, insert, update on deferred.__deferred_limit to deferred_worker;
grant select on deferred.__deferred_limit to deferred_viewer;
grant select (limited, concurrency_key) on deferred.__deferred_hot to deferred_viewer;

reset role;
