-- 0007 messages: jobs without function, put and taken by consumers that hold no connection (the HTTP front, SQL).
--
-- A message is a job whose fn is NULL. Workers never look at one: the indexes of what they claim leave messages out, and
-- __deferred_hot_message holds nothing else. A message is visible while due_at is NULL or past. Taking it sets due_at to the end
-- of its visibility timeout, which moves it out of the part of that index where takers look: however many messages are hidden at
-- the head of a queue, the next taker does not meet one of them. (A claim by a worker leaves due_at alone, to be a HOT update:
-- its leases are short, and renewing one moves the row to the tail.) Nobody needs to run for a message to come back: takers look
-- at what is visible and at what is due, and take the one that has been visible for longer.
--
-- Who takes a message has its receipt, and worker is NULL. The receipt stays good after the timeout, until somebody else takes the
-- message; that one logs the attempt that went by as lost. The receipt of a put is kept in put_receipt and good until the message
-- is taken for the first time.
--
-- The __message_...() functions take arrays, element i of all of them being request i, and return a status each: what many clients
-- asked for at the same moment is one statement and one commit. They never wait for a row while they hold another but in the
-- order of ids, or skip what is locked, so no two of them block each other for good.

do $roles$
begin
    if not exists (select from pg_catalog.pg_roles where rolname = 'deferred_http') then
        create role deferred_http nologin;
    end if;
end
$roles$;

set local role deferred_owner;

-- ---------------------------------------------------------------- tables

alter table deferred.__deferred_hot add column put_receipt bigint;
comment on column deferred.__deferred_hot.put_receipt is 'token that a message was put with; good while it was never taken (attempt 0, no receipt)';
comment on column deferred.__deferred_hot.due_at is 'delayed until, for a message also hidden until; NULL: ready, or a call that is claimed';
comment on column deferred.__deferred_hot.worker is 'worker that holds the claim; NULL with a receipt: a consumer holds it';
comment on table deferred.__deferred is 'the calls as they were deferred; rows are added and, long after, purged, never changed but for the params of a message its holder replaces';
comment on column deferred.__deferred_log.attempt is 'number of the attempt from 1; 0: the job ended while nobody ran it';
comment on column deferred.__deferred_log.worker is 'worker that made the attempt: __deferred_worker.id; NULL: a consumer';

drop index deferred.__deferred_hot_ready;
create index __deferred_hot_ready on deferred.__deferred_hot (queue, priority desc, xid, id)
    where due_at is null and not limited and fn is not null;
drop index deferred.__deferred_hot_delayed;
create index __deferred_hot_delayed on deferred.__deferred_hot (due_at) where due_at is not null and fn is not null;
create index __deferred_hot_message on deferred.__deferred_hot (queue, due_at nulls first, priority desc, xid, id) where fn is null;

alter table deferred.__deferred_queue
    add column max_dequeue integer check (max_dequeue between 1 and 1000),
    add column acl json,
    add column clearing_to bigint;
comment on column deferred.__deferred_queue.max_dequeue is 'a message taken so often goes to the queue NAME-poison instead of being taken again; NULL: no limit';
comment on column deferred.__deferred_queue.acl is 'stored access policies of the HTTP front, as they were set';
comment on column deferred.__deferred_queue.clearing_to is 'removed with jobs in it, which are being cleared up to this id; NULL: none are';
comment on column deferred.__deferred_queue.metadata is 'for applications; the HTTP front shows fn and max_dequeue with it';

create table deferred.__deferred_account (
    name          text collate "C" primary key check (name ~ '^[a-z0-9]{3,24}$'),
    enabled       boolean not null default true,
    key1          bytea not null,
    key2          bytea not null,
    properties    json,
    created_at    timestamptz not null default clock_timestamp(),
    key1_since    timestamptz not null default clock_timestamp(),
    key2_since    timestamptz not null default clock_timestamp()
);
comment on table  deferred.__deferred_account is 'accounts of the HTTP front; the queues of an account are those whose names begin with its name and a dot';
comment on column deferred.__deferred_account.name is 'name of the account, 3 to 24 lower-case letters and digits';
comment on column deferred.__deferred_account.enabled is 'false: every request is refused';
comment on column deferred.__deferred_account.key1 is 'first key, encrypted: lib/account_key.h';
comment on column deferred.__deferred_account.key2 is 'second key, encrypted';
comment on column deferred.__deferred_account.properties is 'service properties, as they were set';
comment on column deferred.__deferred_account.created_at is 'when it was added (database clock)';
comment on column deferred.__deferred_account.key1_since is 'when the first key was made';
comment on column deferred.__deferred_account.key2_since is 'when the second key was made';

-- ---------------------------------------------------------------- texts

-- The text of a message is a JSON string. For a queue with a function, a text that is a JSON object or array is stored as it
-- stands, so that the function gets an object.
create function deferred.__message_params(text text, bound boolean) returns json
language plpgsql immutable
as $$
declare
    v_json json;
begin
    if bound and text ~ '^[ \t\n\r]*[[{]' then
        begin
            v_json := text::json;
            if deferred.__depth_ok(v_json) then return v_json; end if;
        exception when data_exception or program_limit_exceeded then
            null;  -- a text like any other
        end;
    end if;
    return to_json(text);
end
$$;
comment on function deferred.__message_params(text, boolean) is 'text of a message as params';

create function deferred.__message_text_escaped(params json) returns text
language plpgsql immutable
as $$
begin
    return params #>> '{}';
exception when data_exception then
    return params::text;  -- what PostgreSQL cannot hold as text: \u0000, half a surrogate pair
end
$$;
comment on function deferred.__message_text_escaped(json) is 'part of deferred.__message_text(): a string with \u in it';

create function deferred.__message_text(params json) returns text
language sql immutable
as $$
    select case when json_typeof($1) <> 'string' then $1::text
                when strpos($1::text, '\u') = 0 then $1 #>> '{}'
                else deferred.__message_text_escaped($1) end
$$;
comment on function deferred.__message_text(json) is 'params of a message as its text: of a string what it says, else the JSON as it stands';

-- ---------------------------------------------------------------- putting

-- Statuses are those of enum message_status in lib/store_message.h.
create function deferred.__message_put(queues text[], texts text[], visibility_s bigint[], ttl_s bigint[])
returns table (item integer, status integer, id bigint, receipt bigint, inserted_at timestamptz, expires_at timestamptz, visible_at timestamptz)
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    v_now    timestamptz := clock_timestamp();
    v_actor  name := deferred.__actor();
    v_grants boolean := exists (select from deferred.__deferred_grant g where g.role in (v_actor, session_user));
begin
    return query
    with queue as materialized (
        select q.name, q.fn, q.params_max_bytes, q.ttl_ms, q.max_length, q.on_full = 'drop' as drop, q.limited_jobs,
               case when q.fn is not null then deferred.__is_limited(q.name, q.fn, null) else false end as limited,
               case when q.max_length is not null then greatest(0, q.max_length - deferred.__queue_length(q.name, q.max_length)) end as room,
               not v_grants or exists (
                   select from deferred.__deferred_grant g
                   where g.role in (v_actor, session_user) and (g.queue is null or g.queue = q.name) and (g.fn is null or g.fn = q.fn)) as allowed
        from deferred.__deferred_queue q where q.name = any ($1) and q.removed_at is null),
    sized as materialized (
        select i.n::integer as n, q.name as queue, q.fn, q.limited, q.max_length is not null as bounded, q.drop, q.room, p.params,
               case when i.visibility_s > 0 then v_now + i.visibility_s * interval '1 second' end as due_at,
               case when i.ttl_s > 0 then v_now + i.ttl_s * interval '1 second'
                    when q.ttl_ms is not null and i.ttl_s = 0 then v_now + q.ttl_ms * interval '1 millisecond'
                    when i.ttl_s = 0 then v_now + interval '7 days' end as expires_at,
               case when q.name is null then 1 when not q.allowed then 10 when octet_length(p.params::text) > q.params_max_bytes then 9
                    else 0 end as status
        from unnest($1, $2, $3, $4) with ordinality as i(queue, text, visibility_s, ttl_s, n)
        left join queue q on q.name = i.queue
        cross join lateral (
            select case when q.fn is null then to_json(i.text) else deferred.__message_params(i.text, true) end as params offset 0) p),
    place as materialized (
        select s.*, case when s.room is not null and s.status = 0
                         then count(*) filter (where s.status = 0) over (partition by s.queue order by s.n) > s.room else false end as full
        from sized s),
    job as materialized (
        select p.*, case when p.status = 0 and (not p.full or p.drop) then nextval('deferred.__deferred_id_seq') end as id,
               uuid_hash_extended(gen_random_uuid(), 0) as receipt
        from place p),
    hot as (
        insert into deferred.__deferred_hot (id, queue, fn, due_at, visible_at, expires_at, limited, bounded, put_receipt)
        select j.id, j.queue, j.fn, j.due_at, coalesce(j.due_at, v_now), j.expires_at, j.limited, j.bounded, j.receipt
        from job j where j.id is not null and not j.full),
    call as (
        insert into deferred.__deferred (id, queue, fn, params, run_at, expires_at, created_at, created_by)
        select j.id, j.queue, j.fn, j.params, j.due_at, j.expires_at, v_now, v_actor
        from job j where j.id is not null and not j.full),
    marked as (
        update deferred.__deferred_queue q set limited_jobs = true
        where not q.limited_jobs and q.name in (select k.name from queue k where k.limited and not k.limited_jobs))
    select j.n, case when j.full and not j.drop then 4 else j.status end, j.id, j.receipt, v_now, j.expires_at, coalesce(j.due_at, v_now)
    from job j;
    perform deferred.__wake(q.name)
    from deferred.__deferred_queue q
    where q.name = any ($1) and q.fn is not null and exists (select from unnest($1, $3) i(queue, visibility_s) where i.queue = q.name and i.visibility_s < 60);
end
$$;
comment on function deferred.__message_put is 'puts messages, or calls where the queue has a function';

-- ---------------------------------------------------------------- endings that nobody asked for

-- The rows are locked by the caller.
create function deferred.__message_expire(ids bigint[]) returns bigint
language plpgsql
as $$
declare
    v_rows bigint;
begin
    with gone as (
        delete from deferred.__deferred_hot h where h.id = any ($1)
        returning h.id, h.attempt, h.receipt, h.started_at, h.expires_at)
    insert into deferred.__deferred_log (job_id, attempt, outcome, final, error, started_at, receipt)
    select g.id, case when g.receipt is null then 0 else g.attempt end, 'expired', true, format('not done before %s', g.expires_at),
           g.started_at, g.receipt
    from gone g;
    get diagnostics v_rows = row_count;
    return v_rows;
end
$$;
comment on function deferred.__message_expire(bigint[]) is 'ends messages that are past their expiry';

-- They become new messages of NAME-poison, which do not expire unless that queue has a ttl: nobody has looked at them yet.
create function deferred.__message_poison(ids bigint[]) returns void
language plpgsql
as $$
declare
    v_now timestamptz := clock_timestamp();
begin
    insert into deferred.__deferred_queue (name)
    select distinct h.queue || '-poison' from deferred.__deferred_hot h where h.id = any ($1) order by 1
    on conflict do nothing;
    update deferred.__deferred_queue q set removed_at = null
    where q.removed_at is not null and q.name in (select h.queue || '-poison' from deferred.__deferred_hot h where h.id = any ($1));
    with gone as (
        delete from deferred.__deferred_hot h where h.id = any ($1)
        returning h.id, h.queue || '-poison' as queue, h.attempt, h.priority, h.receipt, h.started_at),
    new as materialized (
        select g.*, nextval('deferred.__deferred_id_seq') as new_id,
               v_now + (select q.ttl_ms from deferred.__deferred_queue q where q.name = g.queue) * interval '1 millisecond' as expires_at
        from gone g order by g.id),
    hot as (
        insert into deferred.__deferred_hot (id, queue, priority, visible_at, expires_at)
        select n.new_id, n.queue, n.priority, v_now, n.expires_at from new n),
    call as (
        insert into deferred.__deferred (id, queue, params, label, priority, expires_at, created_at, created_by)
        select n.new_id, n.queue, d.params, format('job %s, taken %s times', n.id, n.attempt), n.priority, n.expires_at, v_now, d.created_by
        from new n join deferred.__deferred d on d.id = n.id)
    insert into deferred.__deferred_log (job_id, attempt, outcome, final, error, started_at, receipt)
    select n.id, case when n.receipt is null then 0 else n.attempt end, case when n.receipt is null then 'failed' else 'lost' end, true,
           format('taken %s times: moved to queue %s as job %s', n.attempt, n.queue, n.new_id), n.started_at, n.receipt
    from new n;
end
$$;
comment on function deferred.__message_poison(bigint[]) is 'moves messages that were taken too often to the queue NAME-poison';

-- ---------------------------------------------------------------- taking

-- One row a message and, with id NULL, one a request.
create function deferred.__message_get(queues text[], counts integer[], visibility_s bigint[])
returns table (item integer, status integer, id bigint, receipt bigint, attempt integer, inserted_at timestamptz, expires_at timestamptz,
    visible_at timestamptz, params json)
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    v_now      timestamptz := clock_timestamp();
    -- queues that may be taken from; how many messages all requests together want of each, and have
    v_queue    text[];
    v_wanted   integer[];
    v_given    integer[];
    v_max      integer[];
    -- what this round found: whom it goes to, what is to be logged
    v_id       bigint[];
    v_item     integer[];
    v_receipt  bigint[];
    v_started  timestamptz[];
    v_expired  bigint[];
    v_poisoned bigint[];
    v_items    integer[] := '{}';
begin
    select array_agg(q.name), array_agg(w.wanted), array_agg(0), array_agg(q.max_dequeue) into v_queue, v_wanted, v_given, v_max
    from (select i.queue, sum(i.count)::integer as wanted from unnest($1, $2) as i(queue, count) group by i.queue) w
    join deferred.__deferred_queue q on q.name = w.queue
    where q.removed_at is null and not q.paused;
    -- A round that only met messages to be ended is followed by another.
    for round in 1..20 loop
        exit when v_queue is null;
        with queue as materialized (
            select k.name, k.wanted - k.given as wanted, k.given, k.dequeue_max
            from unnest(v_queue, v_wanted, v_given, v_max) as k(name, wanted, given, dequeue_max) where k.wanted > k.given),
        visible as materialized (
            select q.name, q.given, q.dequeue_max, x.*
            from queue q
            cross join lateral (
                select h.id, h.priority, h.xid, h.visible_at, h.expires_at, h.attempt, h.attempt_base, h.receipt, h.started_at
                from deferred.__deferred_hot h
                where h.queue = q.name and h.fn is null and h.due_at is null
                order by h.queue, h.due_at nulls first, h.priority desc, h.xid, h.id
                limit q.wanted for update of h skip locked) x),
        due as materialized (
            select q.name, q.given, q.dequeue_max, x.*
            from queue q
            cross join lateral (
                select h.id, h.priority, h.xid, h.due_at as visible_at, h.expires_at, h.attempt, h.attempt_base, h.receipt, h.started_at
                from deferred.__deferred_hot h
                where h.queue = q.name and h.fn is null and h.due_at <= v_now
                order by h.queue, h.due_at nulls first
                limit q.wanted for update of h skip locked) x),
        seen as (
            select x.*, case when x.expires_at <= v_now then 'expired'
                             when x.attempt - x.attempt_base >= x.dequeue_max then 'poisoned' else 'free' end as fate
            from (select * from visible union all select * from due) x),
        turn as materialized (
            select s.*, s.given + row_number() over (partition by s.name, s.fate order by s.priority desc, s.visible_at, s.xid, s.id) as turn
            from seen s),
        slot as materialized (
            select i.n, i.queue, sum(i.count) over w - i.count as after, sum(i.count) over w as upto
            from unnest($1, $2) with ordinality as i(queue, count, n) window w as (partition by i.queue order by i.n))
        select array_agg(t.id order by s.n, t.turn) filter (where s.n is not null),
               array_agg(s.n order by s.n, t.turn) filter (where s.n is not null),
               array_agg(t.receipt order by s.n, t.turn) filter (where s.n is not null),
               array_agg(t.started_at order by s.n, t.turn) filter (where s.n is not null),
               array_agg(t.id) filter (where t.fate = 'expired'), array_agg(t.id) filter (where t.fate = 'poisoned')
        into v_id, v_item, v_receipt, v_started, v_expired, v_poisoned
        from turn t left join slot s on t.fate = 'free' and s.queue = t.name and t.turn > s.after and t.turn <= s.upto;

        if v_id is not null then
            return query
            with pick as materialized (
                select p.id, p.n, p.receipt, p.started_at, p.turn
                from unnest(v_id, v_item, v_receipt, v_started) with ordinality as p(id, n, receipt, started_at, turn)),
            taken as (
                update deferred.__deferred_hot h
                set attempt = h.attempt + 1, receipt = uuid_hash_extended(gen_random_uuid(), 0), worker = null, started_at = v_now,
                    due_at = v_now + ($3)[p.n] * interval '1 second', visible_at = v_now + ($3)[p.n] * interval '1 second'
                from pick p where h.id = p.id
                returning p.n, p.turn, h.id, h.receipt, h.attempt, h.expires_at, h.visible_at, p.receipt as old_receipt, p.started_at as old_started_at),
            lost as (
                insert into deferred.__deferred_log (job_id, attempt, outcome, final, error, started_at, receipt)
                select t.id, t.attempt - 1, 'lost', false, 'not finished before it was visible again', t.old_started_at, t.old_receipt
                from taken t where t.old_receipt is not null)
            select t.n, 0, t.id, t.receipt, t.attempt, d.created_at, t.expires_at, t.visible_at, d.params
            from taken t cross join lateral (select d.created_at, d.params from deferred.__deferred d where d.id = t.id offset 0) d
            order by t.turn;
        end if;
        if v_expired is not null then perform deferred.__message_expire(v_expired); end if;
        if v_poisoned is not null then perform deferred.__message_poison(v_poisoned); end if;
        exit when v_expired is null and v_poisoned is null;
        v_items := v_items || v_item;
        v_given := array(select (select count(*)::integer from unnest(v_items) n where ($1)[n] = k.name)
                         from unnest(v_queue) with ordinality as k(name, i) order by k.i);
    end loop;
    return query
    select i.n::integer, case when q.name is null then 1 else 0 end, null::bigint, null::bigint, null::integer, null::timestamptz,
           null::timestamptz, null::timestamptz, null::json
    from unnest($1) with ordinality as i(queue, n)
    left join deferred.__deferred_queue q on q.name = i.queue and q.removed_at is null;
end
$$;
comment on function deferred.__message_get is 'takes visible messages for some requests; no message goes to two of them';

create function deferred.__message_peek(queues text[], counts integer[])
returns table (item integer, status integer, id bigint, attempt integer, inserted_at timestamptz, expires_at timestamptz,
    visible_at timestamptz, params json)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    v_now timestamptz := clock_timestamp();
begin
    return query
    select i.n::integer, case when q.name is null then 1 else 0 end, x.id, x.attempt, x.created_at, x.expires_at, x.visible_at, x.params
    from unnest($1, $2) with ordinality as i(queue, count, n)
    left join deferred.__deferred_queue q on q.name = i.queue and q.removed_at is null
    left join lateral (
        select y.*, d.created_at, d.params
        from (select v.*
              from ((select h.id, h.attempt, h.expires_at, h.visible_at, h.priority, h.xid from deferred.__deferred_hot h
                     where h.queue = q.name and h.fn is null and h.due_at is null and (h.expires_at is null or h.expires_at > v_now)
                     order by h.queue, h.due_at nulls first, h.priority desc, h.xid, h.id limit i.count)
                    union all
                    (select h.id, h.attempt, h.expires_at, h.visible_at, h.priority, h.xid from deferred.__deferred_hot h
                     where h.queue = q.name and h.fn is null and h.due_at <= v_now and (h.expires_at is null or h.expires_at > v_now)
                     order by h.queue, h.due_at nulls first limit i.count)) v
              order by v.priority desc, v.visible_at, v.xid, v.id limit i.count) y
        cross join lateral (select d.created_at, d.params from deferred.__deferred d where d.id = y.id offset 0) d) x on true
    order by i.n, x.priority desc, x.visible_at, x.xid, x.id;
end
$$;
comment on function deferred.__message_peek is 'visible messages, without taking them; one row a request at least';

-- ---------------------------------------------------------------- with a receipt

-- Does this receipt hold the row? A worker's never does: it ends its claims itself.
create function deferred.__message_holds(receipt bigint, held bigint, put_receipt bigint, attempt integer, worker bigint) returns boolean
language sql immutable
as $$
    select $5 is null and coalesce($1 = $2, $4 = 0 and $1 = $3, false)
$$;
comment on function deferred.__message_holds is 'true if a receipt is the one of the last take or, where there was none, of the put';

-- Why requests were not fulfilled, seen after the fact.
create function deferred.__message_why(queues text[], ids bigint[], done integer[]) returns table (item integer, status integer)
language sql
as $$
    select i.n::integer,
           case when i.n = any ($3) then 0
                when not exists (select from deferred.__deferred_queue q where q.name = i.queue and q.removed_at is null) then 1
                when exists (select from deferred.__deferred_hot h where h.id = i.id and h.queue = i.queue
                             and (h.expires_at is null or h.expires_at > clock_timestamp())) then 3
                else 2 end
    from unnest($1, $2) with ordinality as i(queue, id, n)
$$;
comment on function deferred.__message_why is 'status of each request; those in done are';

create function deferred.__message_delete(queues text[], ids bigint[], receipts bigint[]) returns table (item integer, status integer)
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    v_now  timestamptz := clock_timestamp();
    v_done integer[];
begin
    with ours as materialized (
        select h.id, i.n
        from unnest($1, $2, $3) with ordinality as i(queue, id, receipt, n)
        join deferred.__deferred_queue q on q.name = i.queue and q.removed_at is null
        join deferred.__deferred_hot h on h.id = i.id and h.queue = i.queue
        where deferred.__message_holds(i.receipt, h.receipt, h.put_receipt, h.attempt, h.worker)
          and (h.expires_at is null or h.expires_at > v_now)
        order by h.id for update of h),
    first as materialized (
        select o.id, min(o.n) as n from ours o group by o.id),
    gone as (
        delete from deferred.__deferred_hot h using first f where h.id = f.id
        returning h.id, case when h.receipt is null then 0 else h.attempt end as attempt, h.started_at,
                  coalesce(h.receipt, h.put_receipt) as receipt, f.n),
    log as (
        insert into deferred.__deferred_log (job_id, attempt, outcome, final, started_at, finished_at, receipt, run_us)
        select g.id, g.attempt, 'ok', true, g.started_at, v_now, g.receipt, extract(epoch from v_now - g.started_at) * 1000000 from gone g)
    select array_agg(g.n::integer) into v_done from gone g;
    return query select w.item, w.status from deferred.__message_why($1, $2, coalesce(v_done, '{}')) w;
end
$$;
comment on function deferred.__message_delete is 'ends messages that are done, each by the receipt of its last take or of its put';

-- A text NULL stays as it is.
create function deferred.__message_update(queues text[], ids bigint[], receipts bigint[], visibility_s bigint[], texts text[])
returns table (item integer, status integer, receipt bigint, visible_at timestamptz)
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    v_now     timestamptz := clock_timestamp();
    v_done    integer[];
    v_id      bigint[];
    v_receipt bigint[];
    v_visible timestamptz[];
    v_large   integer[];
begin
    -- A queue's limit counts for what is stored; one look, for it is rarely met.
    select array_agg(i.n::integer) into v_large
    from unnest($1, $5) with ordinality as i(queue, text, n)
    join deferred.__deferred_queue q on q.name = i.queue
    where octet_length(i.text) * 6 > q.params_max_bytes and octet_length(to_json(i.text)::text) > q.params_max_bytes;
    with ours as materialized (
        select h.id, i.n
        from unnest($1, $2, $3) with ordinality as i(queue, id, receipt, n)
        join deferred.__deferred_queue q on q.name = i.queue and q.removed_at is null
        join deferred.__deferred_hot h on h.id = i.id and h.queue = i.queue
        where deferred.__message_holds(i.receipt, h.receipt, h.put_receipt, h.attempt, h.worker)
          and (h.expires_at is null or h.expires_at > v_now) and i.n <> all (coalesce(v_large, '{}'))
        order by h.id for update of h),
    first as materialized (
        select o.id, min(o.n)::integer as n, uuid_hash_extended(gen_random_uuid(), 0) as receipt from ours o group by o.id),
    held as (
        update deferred.__deferred_hot h
        set receipt = case when h.receipt is not null then f.receipt end,
            put_receipt = case when h.receipt is null then f.receipt end,
            due_at = case when ($4)[f.n] > 0 then v_now + ($4)[f.n] * interval '1 second' end,
            visible_at = v_now + ($4)[f.n] * interval '1 second', xid = pg_current_xact_id()
        from first f where h.id = f.id
        returning h.id, f.n, f.receipt, h.visible_at, h.fn),
    call as (
        update deferred.__deferred d
        set params = case when h.fn is null then to_json(($5)[h.n]) else deferred.__message_params(($5)[h.n], true) end
        from held h where d.id = h.id and ($5)[h.n] is not null)
    select array_agg(h.n), array_agg(h.receipt), array_agg(h.visible_at), array_agg(h.id) filter (where h.fn is not null)
    into v_done, v_receipt, v_visible, v_id from held h;
    if v_id is not null then
        perform deferred.__wake(q.queue)
        from (select distinct h.queue from deferred.__deferred_hot h where h.id = any (v_id) and h.visible_at < v_now + interval '1 minute') q;
    end if;
    return query
    select w.item, case when w.item = any (v_large) and w.status = 3 then 9 else w.status end, d.receipt, d.visible_at
    from deferred.__message_why($1, $2, coalesce(v_done, '{}')) w
    left join unnest(v_done, v_receipt, v_visible) as d(n, receipt, visible_at) on d.n = w.item;
end
$$;
comment on function deferred.__message_update is 'hides messages anew, each by its receipt, which is replaced, and may replace their texts';

-- ---------------------------------------------------------------- rights

revoke all on all functions in schema deferred from public;
grant usage on schema deferred to deferred_http;
grant select on deferred.__deferred_migration to deferred_http;
grant execute on function deferred.__message_put, deferred.__message_get, deferred.__message_peek, deferred.__message_update,
    deferred.__message_delete, deferred.__message_text(json), deferred.__message_text_escaped(json) to deferred_http;

reset role;
