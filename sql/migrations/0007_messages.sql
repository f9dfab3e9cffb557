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

set local role deferred_owner;

-- ---------------------------------------------------------------- tables

create table deferred.__deferred_account (
    name          text collate "C" primary key check (name ~ '^[a-z0-9]{3,24}$'),
    enabled       boolean not null default true,
    key1          bytea not null,
    key2          bytea not null,
    properties    json,
    functions     text[] collate "C" not null default '{}',
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
comment on column deferred.__deferred_account.functions is 'functions that its messages may become calls of, each by its name or, as PREFIX.*, by how it begins';
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
    if bound and text ~ E'^[ \t\n\r]*[[{]' then
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
comment on function deferred.__message_text_escaped(json) is 'part of deferred.__message_text(): a string with escapes in it';

create function deferred.__message_text(params json) returns text
language sql immutable
as $$
    select case when json_typeof($1) <> 'string' then $1::text
                when strpos($1::text, E'\\u') = 0 then $1 #>> '{}'
                else deferred.__message_text_escaped($1) end
$$;
comment on function deferred.__message_text(json) is 'params of a message as its text: of a string what it says, else the JSON as it stands';

-- ---------------------------------------------------------------- functions

-- What a stranger sends becomes a call only of functions that the account was given. Asked when a queue is bound and again at each
-- put, and where a call is to get other params: the binding may be older than the answer, or an operator's. A queue of no account
-- gives no right: the role of the front must not reach the queues of others by SQL either. In PL/pgSQL, which keeps the plan.
create function deferred.__account_may(queue text, fn text) returns boolean
language plpgsql stable
as $$
begin
    return exists (select from deferred.__deferred_account a, unnest(a.functions) f(name)
                   where a.name = split_part($1, '.', 1) and strpos($1, '.') > 0
                     and (f.name = $2 or (right(f.name, 2) = '.*' and starts_with($2, left(f.name, -1)))));
end
$$;
comment on function deferred.__account_may(text, text) is 'true if the account that a queue belongs to was given a function';

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
                   where g.role in (v_actor, session_user) and (g.queue is null or g.queue = q.name) and (g.fn is null or g.fn = q.fn)) as allowed,
               q.fn is null or deferred.__account_may(q.name, q.fn) as given
        from deferred.__deferred_queue q where q.name = any ($1) and q.removed_at is null),
    sized as materialized (
        select i.n::integer as n, q.name as queue, q.fn, q.limited, q.max_length is not null as bounded, q.drop, q.room, p.params,
               case when i.visibility_s > 0 then v_now + i.visibility_s * interval '1 second' end as due_at,
               case when i.ttl_s > 0 then v_now + i.ttl_s * interval '1 second'
                    when q.ttl_ms is not null and i.ttl_s = 0 then v_now + q.ttl_ms * interval '1 millisecond'
                    when i.ttl_s = 0 then v_now + interval '7 days' end as expires_at,
               case when q.name is null then 1 when not q.allowed then 10 when not q.given then 11 when octet_length(p.params::text) > q.params_max_bytes then 9
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
    -- They count for who made the queue, and are added beyond the quota too: one for each at most.
    insert into deferred.__deferred_queue (name, created_by)
    select distinct h.queue || '-poison', q.created_by
    from deferred.__deferred_hot h left join deferred.__deferred_queue q on q.name = h.queue where h.id = any ($1) order by 1
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
        insert into deferred.__deferred_hot (id, queue, priority, visible_at, expires_at, bounded)
        select n.new_id, n.queue, n.priority, v_now, n.expires_at,
               exists (select from deferred.__deferred_queue q where q.name = n.queue and q.max_length is not null)
        from new n),
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

-- max_running and rate of a queue count for consumers as they do for workers: see deferred.__claim_limited(). Its row of
-- __deferred_limit stays locked, and is waited for, in the order of names.
create function deferred.__message_room(queues text[]) returns json
language plpgsql
as $$
#variable_conflict use_column
declare
    v_now timestamptz;
begin
    insert into deferred.__deferred_limit (kind, queue, name)
    select 'queue', u.name, '' from unnest($1) as u(name)
    where not exists (select from deferred.__deferred_limit l where l.kind = 'queue' and l.queue = u.name and l.name = '')
    order by u.name on conflict do nothing;
    perform from deferred.__deferred_limit l where l.kind = 'queue' and l.queue = any ($1) and l.name = '' order by l.queue for update;
    v_now := clock_timestamp();  -- later than any holder before us looked at the clock
    return (
        select json_object_agg(l.queue, json_build_object('now', v_now, 'tokens', t.tokens, 'still', r.still,
                   'room', greatest(0, least(1000000000, q.max_running - cardinality(r.still), floor(t.tokens)))::integer))
        from deferred.__deferred_limit l
        join deferred.__deferred_queue q on q.name = l.queue
        cross join lateral (
            select array(select h.id from unnest(l.running) i join deferred.__deferred_hot h on h.id = any (array[i])
                         where h.receipt is not null and h.visible_at > v_now) as still) r
        cross join lateral (
            select case when q.rate is not null then
                least(coalesce(q.burst, 1),
                      coalesce(l.tokens + greatest(0, extract(epoch from v_now - l.tokens_at))::double precision * q.rate, coalesce(q.burst, 1)))
                end as tokens) t
        where l.kind = 'queue' and l.queue = any ($1) and l.name = '');
end
$$;
comment on function deferred.__message_room(text[]) is 'how many messages the limits of these queues let be taken now; locks their rows';

create function deferred.__message_running(queues text[], room json, ids bigint[]) returns void
language sql
as $$
    update deferred.__deferred_limit l
    set running = array(select e.id::bigint from json_array_elements_text($2->l.queue->'still') e(id) union select t.id from unnest(t.ids) t(id)),
        tokens = ($2->l.queue->>'tokens')::double precision - cardinality(t.ids), tokens_at = ($2->l.queue->>'now')::timestamptz,
        used_at = ($2->l.queue->>'now')::timestamptz
    from (select h.queue, array_agg(h.id) as ids from deferred.__deferred_hot h where h.id = any ($3) group by h.queue) t
    where l.kind = 'queue' and l.queue = t.queue and l.queue = any ($1) and l.name = ''
$$;
comment on function deferred.__message_running(text[], json, bigint[]) is 'notes messages taken of queues with limits';

-- One row a message and, with id NULL, one a request.
create function deferred.__message_get(queues text[], counts integer[], visibility_ms bigint[])
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
    v_more     integer := 0;  -- rows looked at beyond those wanted
    -- limits of queues that have one, as this statement found them
    v_limit    text[];
    v_still    json;
    v_all      bigint[] := '{}';
begin
    select array_agg(q.name), array_agg(w.wanted), array_agg(0), array_agg(q.max_dequeue),
           array_agg(q.name order by q.name) filter (where coalesce(q.max_running, q.rate) is not null)
    into v_queue, v_wanted, v_given, v_max, v_limit
    from (select i.queue, sum(i.count)::integer as wanted from unnest($1, $2) as i(queue, count) group by i.queue) w
    join deferred.__deferred_queue q on q.name = w.queue
    where q.removed_at is null and not q.paused;
    if v_limit is not null then
        v_still := deferred.__message_room(v_limit);
        v_wanted := array(select coalesce(least(w.wanted, (v_still->w.name->>'room')::integer), w.wanted)
                          from unnest(v_queue, v_wanted) with ordinality as w(name, wanted, i) order by w.i);
    end if;
    -- A round that only met messages to be ended is followed by another.
    for round in 1..20 loop
        exit when v_queue is null;
        with queue as materialized (
            select k.name, k.wanted - k.given as wanted, k.wanted as in_all, k.given, k.dequeue_max
            from unnest(v_queue, v_wanted, v_given, v_max) as k(name, wanted, given, dequeue_max) where k.wanted > k.given),
        visible as materialized (
            select q.name, q.in_all, q.given, q.dequeue_max, x.*
            from queue q
            cross join lateral (
                select h.id, h.priority, h.xid, h.visible_at, h.expires_at, h.attempt, h.attempt_base, h.receipt, h.started_at
                from deferred.__deferred_hot h
                where h.queue = q.name and h.fn is null and h.due_at is null
                order by h.queue, h.due_at nulls first, h.priority desc, h.xid, h.id
                limit q.wanted + v_more for update of h skip locked) x),
        due as materialized (
            select q.name, q.in_all, q.given, q.dequeue_max, x.*
            from queue q
            cross join lateral (
                select h.id, h.priority, h.xid, h.due_at as visible_at, h.expires_at, h.attempt, h.attempt_base, h.receipt, h.started_at
                from deferred.__deferred_hot h
                where h.queue = q.name and h.fn is null and h.due_at <= v_now
                order by h.queue, h.due_at nulls first
                limit q.wanted + v_more for update of h skip locked) x),
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
        from turn t left join slot s on t.fate = 'free' and s.queue = t.name and t.turn > s.after and t.turn <= least(s.upto, t.in_all);

        if v_id is not null then
            v_items := v_items || v_item;
            v_all := v_all || v_id;
            if v_limit is not null then perform deferred.__message_running(v_limit, v_still, v_all); end if;
            return query
            with pick as materialized (
                select p.id, p.n, p.receipt, p.started_at, p.turn
                from unnest(v_id, v_item, v_receipt, v_started) with ordinality as p(id, n, receipt, started_at, turn)),
            taken as (
                update deferred.__deferred_hot h
                set attempt = h.attempt + 1, receipt = uuid_hash_extended(gen_random_uuid(), 0), worker = null, started_at = v_now,
                    due_at = v_now + ($3)[p.n] * interval '1 millisecond', visible_at = v_now + ($3)[p.n] * interval '1 millisecond'
                from pick p where h.id = any (array[p.id])
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
        v_more := 500;  -- where there are some to be ended there are often many
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
    select $5 is null and $1 <> 0 and coalesce($1 = $2, $4 = 0 and $1 = $3, false)
$$;
comment on function deferred.__message_holds is 'true if a receipt is the one of the last take or, where there was none, of the put';

-- Why requests were not fulfilled, seen after the fact. In PL/pgSQL, for an SQL function would be planned at each call.
create function deferred.__message_why(queues text[], ids bigint[], done integer[]) returns table (item integer, status integer)
language plpgsql
as $$
begin
    if cardinality($3) = cardinality($1) then
        return query select n, 0 from generate_series(1, cardinality($1)) n;
        return;
    end if;
    return query
    select i.n::integer,
           case when i.n = any ($3) then 0
                when not exists (select from deferred.__deferred_queue q where q.name = i.queue and q.removed_at is null) then 1
                when exists (select from deferred.__deferred_hot h where h.id = i.id and h.queue = i.queue
                             and (h.expires_at is null or h.expires_at > clock_timestamp())) then 3
                else 2 end
    from unnest($1, $2) with ordinality as i(queue, id, n);
end
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
        join deferred.__deferred_hot h on h.id = any (array[i.id]) and h.queue = i.queue
        where deferred.__message_holds(i.receipt, h.receipt, h.put_receipt, h.attempt, h.worker)
          and (h.expires_at is null or h.expires_at > v_now)
        order by h.id for update of h),
    first as materialized (
        select o.id, min(o.n) as n from ours o group by o.id),
    gone as (
        delete from deferred.__deferred_hot h using first f where h.id = any (array[f.id])
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
        from unnest($1, $2, $3, $5) with ordinality as i(queue, id, receipt, text, n)
        join deferred.__deferred_queue q on q.name = i.queue and q.removed_at is null
        join deferred.__deferred_hot h on h.id = any (array[i.id]) and h.queue = i.queue
        where deferred.__message_holds(i.receipt, h.receipt, h.put_receipt, h.attempt, h.worker)
          and (h.expires_at is null or h.expires_at > v_now) and i.n <> all (coalesce(v_large, '{}'))
          and (h.fn is null or i.text is null or deferred.__account_may(h.queue, h.fn))
        order by h.id for update of h),
    first as materialized (
        select o.id, min(o.n)::integer as n, uuid_hash_extended(gen_random_uuid(), 0) as receipt from ours o group by o.id),
    held as (
        update deferred.__deferred_hot h
        set receipt = case when h.receipt is not null then f.receipt end,
            put_receipt = case when h.receipt is null then f.receipt end,
            due_at = case when ($4)[f.n] > 0 then v_now + ($4)[f.n] * interval '1 second' end,
            visible_at = v_now + ($4)[f.n] * interval '1 second', xid = pg_current_xact_id()
        from first f where h.id = any (array[f.id])
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
    select w.item,
           case when w.status <> 3 then w.status when w.item = any (v_large) then 9
                when ($5)[w.item] is not null and exists (
                    select from deferred.__deferred_hot h
                    where h.id = ($2)[w.item] and h.queue = ($1)[w.item] and h.fn is not null and not deferred.__account_may(h.queue, h.fn)) then 11
                else 3 end, d.receipt, d.visible_at
    from deferred.__message_why($1, $2, coalesce(v_done, '{}')) w
    left join unnest(v_done, v_receipt, v_visible) as d(n, receipt, visible_at) on d.n = w.item;
end
$$;
comment on function deferred.__message_update is 'hides messages anew, each by its receipt, which is replaced, and may replace their texts';

-- ---------------------------------------------------------------- clearing and sweeping

-- One step; more is true while there is something left, or locked by somebody else just now.
create function deferred.__message_clear_some(queue text, to_id bigint, batch integer, out cleared bigint, out more boolean)
language plpgsql
as $$
#variable_conflict use_column
begin
    with seen as materialized (
        (select h.id from deferred.__deferred_hot h where h.queue = $1 and h.fn is null and h.id <= $2)
        union all
        (select h.id from deferred.__deferred_hot h where h.queue = $1 and h.fn is not null and h.due_at is null and not h.limited and h.id <= $2)
        union all
        (select h.id from deferred.__deferred_hot h
         where h.queue = $1 and h.fn is not null and h.due_at is null and h.limited and h.concurrency_key is null and h.id <= $2)
        union all
        (select h.id from deferred.__deferred_hot h
         where h.queue = $1 and h.fn is not null and h.concurrency_key is not null and (h.due_at is not null or h.limited) and h.id <= $2)
        union all
        (select h.id from deferred.__deferred_hot h
         where h.due_at is not null and h.fn is not null and h.concurrency_key is null and h.queue = $1 and h.id <= $2)
        limit $3),
    row as materialized (
        select h.id from seen s join deferred.__deferred_hot h on h.id = s.id for update of h skip locked),
    gone as (
        delete from deferred.__deferred_hot h using row r where h.id = r.id
        returning h.id, h.attempt, h.receipt, h.started_at, h.worker),
    log as (
        insert into deferred.__deferred_log (job_id, attempt, outcome, final, error, started_at, worker, receipt)
        select g.id, case when g.receipt is null then 0 else g.attempt end, 'cancelled', true,
               format('queue cleared by %s', deferred.__actor()), g.started_at, g.worker, g.receipt
        from gone g)
    select (select count(*) from gone), count(*) = $3 or count(*) > (select count(*) from gone) into cleared, more from seen;
end
$$;
comment on function deferred.__message_clear_some is 'cancels some jobs of a queue up to an id';

create function deferred.__message_last_id() returns bigint
language sql
as $$
    select case when s.is_called then s.last_value else 0 end from deferred.__deferred_id_seq s
$$;
comment on function deferred.__message_last_id() is 'the last id given out';

-- upto is where a clear began: handed in again, it leaves alone what came in since.
create function deferred.__message_clear(queue text, to_id bigint, batch integer,
    out status integer, out cleared bigint, out upto bigint, out more boolean)
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
    upto := coalesce($2, deferred.__message_last_id());
    if not exists (select from deferred.__deferred_queue q where q.name = $1 and (q.removed_at is null or q.clearing_to is not null)) then
        status := 1;
        more := false;
        return;
    end if;
    status := 0;
    select c.cleared, c.more into cleared, more from deferred.__message_clear_some($1, upto, $3) c;
    if not more then
        update deferred.__deferred_queue q set clearing_to = null where q.name = $1 and q.clearing_to <= upto;
    end if;
end
$$;
comment on function deferred.__message_clear is 'one step of clearing a queue; call it until more is false';

create function deferred.__message_sweep(from_id bigint, batch integer, out expired bigint, out next_id bigint)
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    v_now timestamptz := clock_timestamp();
    v_ids bigint[];
    v_queue record;
begin
    with seen as materialized (
        select h.id, h.fn is null and h.expires_at <= v_now as over from deferred.__deferred_hot h where h.id >= $1 order by h.id limit $2),
    row as materialized (
        select h.id from seen s join deferred.__deferred_hot h on h.id = s.id where s.over and h.expires_at <= v_now
        for update of h skip locked)
    select (select array_agg(r.id) from row r), coalesce((select max(s.id) + 1 from seen s having count(*) = $2), 0) into v_ids, next_id;
    expired := case when v_ids is null then 0 else deferred.__message_expire(v_ids) end;
    for v_queue in select q.name, q.clearing_to from deferred.__deferred_queue q where q.clearing_to is not null limit 10 for update skip locked loop
        if not (select c.more from deferred.__message_clear_some(v_queue.name, v_queue.clearing_to, 2000) c) then
            update deferred.__deferred_queue q set clearing_to = null where q.name = v_queue.name;
        end if;
    end loop;
end
$$;
comment on function deferred.__message_sweep is 'ends expired messages among the next some jobs, and clears what removed queues left behind; next_id 0: that was all';

-- ---------------------------------------------------------------- queues

-- What consumers see as metadata of a queue holds two settings too, so that they can be set from there. Each has a name without "_" as
-- well, for proxies drop headers that have one; it is shown as it was set.
create function deferred.__message_setting(name text) returns text
language sql immutable
as $$
    select case lower($1) when 'deferred_function' then 'deferredfunction' when 'deferred_max_dequeue' then 'deferredmaxdequeue'
                          when 'deferredfunction' then 'deferredfunction' when 'deferredmaxdequeue' then 'deferredmaxdequeue' end
$$;
comment on function deferred.__message_setting(text) is 'which of the two settings a name of metadata stands for; NULL: none';

create function deferred.__message_metadata(metadata json, fn text, max_dequeue integer) returns json
language sql stable
as $$
    with own as materialized (
        select e.key, e.value, e.n, deferred.__message_setting(e.key) as setting
        from json_each_text(case when json_typeof($1) = 'object' then $1 else '{}' end) with ordinality as e(key, value, n))
    select coalesce(json_object_agg(m.key, m.value order by m.n), '{}')
    from (select o.key, case o.setting when 'deferredfunction' then $2 when 'deferredmaxdequeue' then $3::text else o.value end as value, o.n from own o
          union all select 'deferredfunction', $2, 1e9 where not exists (select from own o where o.setting = 'deferredfunction')
          union all select 'deferredmaxdequeue', $3::text, 1e9 + 1 where not exists (select from own o where o.setting = 'deferredmaxdequeue')) m
    where m.value is not null
$$;
comment on function deferred.__message_metadata is 'metadata of a queue as consumers see them';

create function deferred.__message_metadata_read(queue text, metadata json, out ok boolean, out fn text, out max_dequeue integer, out own json)
language plpgsql stable
as $$
declare
    v_fn  text;
    v_max text;
begin
    select max(e.value) filter (where e.setting = 'deferredfunction'), max(e.value) filter (where e.setting = 'deferredmaxdequeue'),
           coalesce(json_object_agg(e.key, case when e.setting is null then e.value else '' end order by e.n), '{}'),
           count(*) filter (where e.setting = 'deferredfunction') <= 1 and count(*) filter (where e.setting = 'deferredmaxdequeue') <= 1
    into v_fn, v_max, own, ok
    from (select e.*, deferred.__message_setting(e.key) as setting from json_each_text(coalesce($2, '{}')) with ordinality as e(key, value, n)) e;
    v_fn := nullif(v_fn, '');
    v_max := nullif(v_max, '');
    -- NAME-poison has to be a name too, within what the protocol allows.
    ok := ok and (v_fn is null or v_fn ~ '^[A-Za-z_][A-Za-z0-9_.]{0,126}$')
        and (v_max is null or (v_max ~ '^[0-9]{1,4}$' and length(substr($1, strpos($1, '.') + 1)) <= 56));
    if ok and v_max is not null then ok := v_max::integer between 1 and 1000; end if;
    if ok then
        fn := v_fn;
        max_dequeue := v_max;
    end if;
exception when data_exception then
    ok := false;
end
$$;
comment on function deferred.__message_metadata_read is 'what metadata say of the two settings, and all of them, those two without value';

create function deferred.__message_may(queue text, fn text) returns boolean
language sql stable
as $$
    select coalesce(bool_or((g.queue is null or g.queue = $1) and (g.fn is null or $2 is null or g.fn = $2)), true)
    from deferred.__deferred_grant g where g.role in (deferred.__actor(), session_user)
$$;
comment on function deferred.__message_may(text, text) is 'true if the acting role may have messages of a queue become calls to fn';

create function deferred.__message_queue_create(queue text, metadata json) returns integer
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    m record;
    q deferred.__deferred_queue;
    v_last bigint;
    v_creator text := 'account:' || split_part($1, '.', 1);
begin
    select * into m from deferred.__message_metadata_read($1, $2);
    if not m.ok then return 8; end if;
    if not deferred.__message_may($1, m.fn) then return 10; end if;
    if m.fn is not null and not deferred.__account_may($1, m.fn) then return 11; end if;
    if not exists (select from deferred.__deferred_queue x where x.name = $1 and x.removed_at is null)
       and not (select c.allowed from deferred.__queue_quota(v_creator) c) then
        return 12;
    end if;
    insert into deferred.__deferred_queue (name, fn, max_dequeue, metadata, created_by)
    values ($1, m.fn, m.max_dequeue, m.own, v_creator) on conflict do nothing;
    if found then return 0; end if;
    select * into q from deferred.__deferred_queue x where x.name = $1 for update;
    if q.removed_at is null then
        return case when (select coalesce(jsonb_object_agg(coalesce(deferred.__message_setting(e.key), lower(e.key)), e.value), '{}')
                          from json_each_text(deferred.__message_metadata(q.metadata, q.fn, q.max_dequeue)) e)
                       = (select coalesce(jsonb_object_agg(coalesce(deferred.__message_setting(e.key), lower(e.key)), e.value), '{}')
                          from json_each_text(deferred.__message_metadata(m.own, m.fn, m.max_dequeue)) e) then 6 else 5 end;
    end if;
    -- A queue made again is empty: of what is left of the former one, some at least is cleared now.
    v_last := deferred.__message_last_id();
    if (select c.more from deferred.__message_clear_some($1, v_last, 2000) c) then
        update deferred.__deferred_queue x set clearing_to = v_last where x.name = $1;
        return 7;
    end if;
    update deferred.__deferred_queue x
    set removed_at = null, clearing_to = null, created_at = clock_timestamp(), created_by = v_creator, fn = m.fn, max_dequeue = m.max_dequeue,
        metadata = m.own
    where x.name = $1;
    return 0;
end
$$;
comment on function deferred.__message_queue_create(text, json) is 'makes a queue; its status';

create function deferred.__message_queue_rm(queue text, batch integer, out status integer, out upto bigint, out more boolean)
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
    perform from deferred.__deferred_queue q where q.name = $1 and q.removed_at is null for update;
    if not found then
        status := 1;
        more := false;
        return;
    end if;
    perform deferred.__queue_rm($1);
    upto := deferred.__message_last_id();
    select c.more into more from deferred.__message_clear_some($1, upto, $2) c;
    if more then
        update deferred.__deferred_queue q set clearing_to = upto where q.name = $1;
    end if;
    status := 0;
end
$$;
comment on function deferred.__message_queue_rm(text, integer) is 'removes a queue and clears some of its jobs; deferred.__message_clear() goes on while there are more';

create function deferred.__message_queue_get(queue text, out status integer, out metadata json, out messages bigint)
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    q deferred.__deferred_queue;
    v_exact constant integer := 10000;
    v_now timestamptz := clock_timestamp();
    v_plan json;
begin
    select * into q from deferred.__deferred_queue x where x.name = $1 and x.removed_at is null;
    if not found then
        status := 1;
        return;
    end if;
    status := 0;
    metadata := deferred.__message_metadata(q.metadata, q.fn, q.max_dequeue);
    select count(*) into messages
    from (select from deferred.__deferred_hot h where h.queue = $1 and h.fn is null and (h.expires_at is null or h.expires_at > v_now)
          union all
          select from deferred.__deferred_hot h where h.queue = $1 and h.fn is not null and h.due_at is null and not h.limited
          union all
          select from deferred.__deferred_hot h
          where h.queue = $1 and h.fn is not null and h.due_at is null and h.limited and h.concurrency_key is null
          union all
          select from deferred.__deferred_hot h
          where h.queue = $1 and h.fn is not null and h.concurrency_key is not null and (h.due_at is not null or h.limited)
          union all
          -- Delayed calls are not kept by queue: only some are looked at.
          select from (select h.queue, h.concurrency_key from deferred.__deferred_hot h where h.due_at is not null and h.fn is not null limit v_exact) x
          where x.queue = $1 and x.concurrency_key is null
          limit v_exact + 1) y;
    if messages > v_exact then
        execute 'explain (format json) select from deferred.__deferred_hot where queue = ' || quote_literal($1) into v_plan;
        messages := greatest(messages, (v_plan->0->'Plan'->>'Plan Rows')::numeric::bigint);
    end if;
end
$$;
comment on function deferred.__message_queue_get(text) is 'metadata of a queue and how many jobs it holds: beyond 10000 an estimate';

create function deferred.__message_queue_metadata(queue text, metadata json) returns integer
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    m record;
begin
    select * into m from deferred.__message_metadata_read($1, $2);
    if not m.ok then return 8; end if;
    if not deferred.__message_may($1, m.fn) then return 10; end if;
    if m.fn is not null and not deferred.__account_may($1, m.fn) then return 11; end if;
    update deferred.__deferred_queue q set fn = m.fn, max_dequeue = m.max_dequeue, metadata = m.own
    where q.name = $1 and q.removed_at is null;
    return case when found then 0 else 1 end;
end
$$;
comment on function deferred.__message_queue_metadata(text, json) is 'replaces the metadata of a queue';

create function deferred.__message_queue_acl(queue text, acl json) returns integer
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
    update deferred.__deferred_queue q set acl = $2 where q.name = $1 and q.removed_at is null;
    return case when found then 0 else 1 end;
end
$$;
comment on function deferred.__message_queue_acl(text, json) is 'replaces the stored access policies of a queue; NULL: none';

create function deferred.__message_queue_acl(queue text, out status integer, out acl json)
language sql stable security definer set search_path = pg_catalog, pg_temp
as $$
    select case when q.name is null then 1 else 0 end, q.acl
    from (select) x left join deferred.__deferred_queue q on q.name = $1 and q.removed_at is null
$$;
comment on function deferred.__message_queue_acl(text) is 'the stored access policies of a queue';

create function deferred.__message_queues(account text, prefix text, from_name text, n integer) returns table (name text, metadata json)
language sql stable security definer set search_path = pg_catalog, pg_temp
as $$
    select substr(q.name, length($1) + 2), deferred.__message_metadata(q.metadata, q.fn, q.max_dequeue)
    from deferred.__deferred_queue q
    where q.name >= $1 || '.' || greatest(coalesce($2, '') collate "C", coalesce($3, '') collate "C") and q.name < $1 || '/'
      and starts_with(q.name, $1 || '.' || coalesce($2, '')) and q.removed_at is null
      and substr(q.name, length($1) + 2) ~ '^[a-z0-9](-?[a-z0-9])*$' and length(q.name) - length($1) - 1 between 3 and 63
    order by q.name limit $4
$$;
comment on function deferred.__message_queues is 'queues of an account, in the order of their names, without its name';

-- ---------------------------------------------------------------- consumers in SQL

-- With finish(), extend() and release() these are all a consumer needs.
create function deferred.claim(queue text, n integer default 1, lease_ms bigint default 30000)
returns table (id bigint, receipt bigint, attempt integer, params json, created_at timestamptz, expires_at timestamptz, visible_at timestamptz)
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
    if $2 is null or $2 not between 1 and 1000 or $3 is null or $3 not between 1 and 604800000 then
        raise exception using errcode = '22003', message = format('%s messages for %s ms are out of range', $2, $3),
            hint = 'take 1 to 1000 messages for 1 to 604800000 ms (7 days)';
    end if;
    if not exists (select from deferred.__deferred_queue q where q.name = $1 and q.removed_at is null) then
        raise exception using errcode = '42704', message = format('no queue %L', left($1, 200)),
            hint = 'a queue is added by the first job deferred to it, or by: deferred queue set NAME --create';
    end if;
    return query
    select m.id, m.receipt, m.attempt, m.params, m.inserted_at, m.expires_at, m.visible_at
    from deferred.__message_get(array[$1], array[$2], array[$3]) m where m.id is not null;
end
$$;
comment on function deferred.claim(text, integer, bigint) is 'take visible messages of a queue, which nobody else is given for so long; each is finished, extended or released by its id and receipt';

create function deferred.release(id bigint, receipt bigint) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
    update deferred.__deferred_hot h
    set receipt = null, put_receipt = null, started_at = null, attempt = h.attempt - 1, due_at = null, visible_at = clock_timestamp(),
        xid = pg_current_xact_id()
    where h.id = $1 and h.receipt = $2 and h.worker is null;
    if not found then
        raise exception using errcode = '55000', message = format('the receipt is not that of the present claim of job %s', $1),
            hint = 'it was finished, cancelled, or taken by somebody else since';
    end if;
end
$$;
comment on function deferred.release(bigint, bigint) is 'give back a claimed message at once, as if it had not been taken. Raises 55000 where the receipt is not valid any more';

-- ---------------------------------------------------------------- accounts

create function deferred.__account_ls() returns setof deferred.__deferred_account
language sql stable security definer set search_path = pg_catalog, pg_temp
as $$
    select * from deferred.__deferred_account a order by a.name
$$;
comment on function deferred.__account_ls() is 'all accounts, with their encrypted keys';

create function deferred.__account_properties(name text, properties json) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
    update deferred.__deferred_account a set properties = $2 where a.name = $1;
    return found;
end
$$;
comment on function deferred.__account_properties(text, json) is 'replaces the service properties of an account; false: there is none';

create function deferred.__account_add(name text, key1 bytea, key2 bytea) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
    if $1 is null or $1 !~ '^[a-z0-9]{3,24}$' then
        raise exception using errcode = '22023', message = format('invalid account name %L', left($1, 200)),
            hint = 'a name has 3 to 24 lower-case letters and digits';
    end if;
    insert into deferred.__deferred_account (name, key1, key2) values ($1, $2, $3);
exception when unique_violation then
    raise exception using errcode = '42710', message = format('there is an account %L already', $1),
        hint = 'deferred account rotate makes it a new key';
end
$$;
comment on function deferred.__account_add(text, bytea, bytea) is 'adds an account; the keys are encrypted already';

-- What is NULL stays as it is.
create function deferred.__account_set(name text, key1 bytea, key2 bytea, enabled boolean) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
    update deferred.__deferred_account a
    set key1 = coalesce($2, a.key1), key1_since = case when $2 is null then a.key1_since else clock_timestamp() end,
        key2 = coalesce($3, a.key2), key2_since = case when $3 is null then a.key2_since else clock_timestamp() end,
        enabled = coalesce($4, a.enabled)
    where a.name = $1;
    if not found then
        raise exception using errcode = '42704', message = format('no account %L', left($1, 200)), hint = 'deferred account ls lists them';
    end if;
end
$$;
comment on function deferred.__account_set(text, bytea, bytea, boolean) is 'replaces keys of an account, or has its requests refused';

-- Both answer with what the account then has.
create function deferred.__account_allow(name text, functions text[]) returns text[]
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    v_bad text := (select f from unnest($2) f where f is null or f !~ '^[A-Za-z_][A-Za-z0-9_.]{0,126}$' and f !~ '^[A-Za-z_][A-Za-z0-9_.]{0,124}\.\*$' limit 1);
    v_all text[];
begin
    if v_bad is not null then
        raise exception using errcode = '22023', message = format('invalid function name %L', left(v_bad, 200)),
            hint = 'a name has 1 to 127 letters, digits, "_" and ".", and begins with a letter or "_"; "PREFIX.*" stands for all that begin so';
    end if;
    update deferred.__deferred_account a set functions = array(select distinct f from unnest(a.functions || $2) f order by f)
    where a.name = $1 returning functions into v_all;
    if not found then
        raise exception using errcode = '42704', message = format('no account %L', left($1, 200)), hint = 'deferred account ls lists them';
    end if;
    return v_all;
end
$$;
comment on function deferred.__account_allow(text, text[]) is 'lets messages of an account become calls of these functions';

create function deferred.__account_disallow(name text, functions text[]) returns text[]
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    v_had text[];
    v_bad text;
begin
    select a.functions into v_had from deferred.__deferred_account a where a.name = $1 for update;
    if not found then
        raise exception using errcode = '42704', message = format('no account %L', left($1, 200)), hint = 'deferred account ls lists them';
    end if;
    -- Nobody is to believe that a right is gone which has another name.
    select f into v_bad from unnest($2) f where f <> all (v_had) limit 1;
    if found then
        raise exception using errcode = '42704', message = format('account %L was not given %L', $1, left(v_bad, 200)),
            hint = 'deferred account ls shows what it was given';
    end if;
    v_had := array(select f from unnest(v_had) with ordinality as h(f, n) where f <> all ($2) order by n);
    update deferred.__deferred_account a set functions = v_had where a.name = $1;
    return v_had;
end
$$;
comment on function deferred.__account_disallow(text, text[]) is 'takes functions from an account: puts to queues that are bound to them are refused from now on';

create function deferred.__account_rm(name text) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
    delete from deferred.__deferred_account a where a.name = $1;
    if not found then
        raise exception using errcode = '42704', message = format('no account %L', left($1, 200)), hint = 'deferred account ls lists them';
    end if;
end
$$;
comment on function deferred.__account_rm(text) is 'removes an account; its queues stay';

-- ---------------------------------------------------------------- rights

revoke all on all functions in schema deferred from public;
grant usage on schema deferred to deferred_http;
grant select on deferred.__deferred_migration to deferred_http;
grant execute on function deferred.__message_put, deferred.__message_get, deferred.__message_peek, deferred.__message_update,
    deferred.__message_delete, deferred.__message_clear, deferred.__message_sweep, deferred.__message_text(json),
    deferred.__message_text_escaped(json), deferred.__message_queue_create(text, json), deferred.__message_queue_rm(text, integer),
    deferred.__message_queue_get(text), deferred.__message_queue_metadata(text, json), deferred.__message_queue_acl(text),
    deferred.__message_queue_acl(text, json), deferred.__message_queues, deferred.__account_ls(), deferred.__account_properties(text, json)
    to deferred_http;
grant execute on function deferred.claim(text, integer, bigint), deferred.release(bigint, bigint) to deferred_http, deferred_worker;
grant execute on function deferred.finish(bigint, bigint, text), deferred.extend(bigint, bigint, bigint) to deferred_http;

reset role;
