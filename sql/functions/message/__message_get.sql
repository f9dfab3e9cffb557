-- messages: jobs without function, put and taken by consumers that hold no connection (the HTTP
-- front, SQL).
--
-- A message is a job whose fn is NULL. Workers never look at one: the indexes of what they claim
-- leave messages out, and __deferred_hot_message holds nothing else. A message is visible while
-- due_at is NULL or past. Taking it sets due_at to the end of its visibility timeout, which moves
-- it out of the part of that index where takers look: however many messages are hidden at the head
-- of a queue, the next taker does not meet one of them. (A claim by a worker leaves due_at alone,
-- to be a HOT update: its leases are short, and renewing one moves the row to the tail.) Nobody
-- needs to run for a message to come back: takers look at what is visible and at what is due, and
-- take the one that has been visible for longer.
--
-- Who takes a message has its receipt, and worker is NULL. The receipt stays good after the
-- timeout, until somebody else takes the message; that one logs the attempt that went by as lost.
-- The receipt of a put is kept in put_receipt and good until the message is taken for the first
-- time.
--
-- The __message_...() functions take arrays, element i of all of them being request i, and return a
-- status each: what many clients asked for at the same moment is one statement and one commit. They
-- never wait for a row while they hold another but in the order of ids, or skip what is locked, so
-- no two of them block each other for good.
--
-- One row a message and, with id NULL, one a request.
create or replace function deferred.__message_get(queues text[], counts integer[],
                                                  visibility_ms bigint[])
returns table (item integer, status integer, id bigint, receipt bigint, attempt integer,
               inserted_at timestamptz, expires_at timestamptz,
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
    -- their lowest and highest id: calls are looked for in these partitions alone
    v_first    bigint;
    v_last     bigint;
    v_items    integer[] := '{}';
    v_more     integer := 0;  -- rows looked at beyond those wanted
    -- limits of queues that have one, as this statement found them
    v_limit    text[];
    v_still    json;
    v_all      bigint[] := '{}';
begin
    select array_agg(q.name), array_agg(w.wanted), array_agg(0), array_agg(q.max_dequeue),
           array_agg(q.name order by q.name) filter (where coalesce(q.max_running,
               q.rate) is not null)
    into v_queue, v_wanted, v_given, v_max, v_limit
    from (select i.queue, sum(i.count)::integer as wanted from unnest($1, $2) as i(queue, count)
          group by i.queue) w
    join deferred.__deferred_queue q on q.name = w.queue
    where q.removed_at is null and not deferred.__is_paused(q);
    if v_limit is not null then
        v_still := deferred.__message_room(v_limit);
        v_wanted := array(select coalesce(least(w.wanted, (v_still->w.name->>'room')::integer),
                                          w.wanted)
                          from unnest(v_queue, v_wanted) with ordinality as w(name, wanted, i)
                          order by w.i);
    end if;
    -- A round that only met messages to be ended is followed by another.
    for round in 1..20 loop
        exit when v_queue is null;
        with queue as materialized (
            select k.name, k.wanted - k.given as wanted, k.wanted as in_all, k.given, k.dequeue_max
            from unnest(v_queue, v_wanted, v_given, v_max) as k(name, wanted, given, dequeue_max)
            where k.wanted > k.given),
        visible as materialized (
            select q.name, q.in_all, q.given, q.dequeue_max, x.*
            from queue q
            cross join lateral (
                select h.id, h.priority, h.xid, h.visible_at, h.expires_at, h.attempt,
                       h.attempt_base, h.receipt, h.started_at
                from deferred.__deferred_hot h
                where h.queue = q.name and h.fn is null and h.due_at is null
                order by h.queue, h.due_at nulls first, h.priority desc, h.xid, h.id
                limit q.wanted + v_more for update of h skip locked) x),
        due as materialized (
            select q.name, q.in_all, q.given, q.dequeue_max, x.*
            from queue q
            cross join lateral (
                select h.id, h.priority, h.xid, h.due_at as visible_at, h.expires_at, h.attempt,
                       h.attempt_base, h.receipt, h.started_at
                from deferred.__deferred_hot h
                where h.queue = q.name and h.fn is null and h.due_at <= v_now
                order by h.queue, h.due_at nulls first
                limit q.wanted + v_more for update of h skip locked) x),
        seen as (
            select x.*, case when x.expires_at <= v_now then 'expired'
                             when x.attempt::bigint - coalesce(x.attempt_base, 0) >= x.dequeue_max
                                 then 'poisoned' else 'free' end as fate
            from (select * from visible union all select * from due) x),
        turn as materialized (
            select s.*, s.given + row_number() over (partition by s.name, s.fate
                                                     order by s.priority desc, s.visible_at, s.xid,
                                                     s.id) as turn
            from seen s),
        slot as materialized (
            select i.n, i.queue, sum(i.count) over w - i.count as after, sum(i.count) over w as upto
            from unnest($1, $2) with ordinality as i(queue, count,
                                                     n) window w as (partition by i.queue
                                                         order by i.n))
        select array_agg(t.id order by s.n, t.turn) filter (where s.n is not null),
               array_agg(s.n order by s.n, t.turn) filter (where s.n is not null),
               array_agg(t.receipt order by s.n, t.turn) filter (where s.n is not null),
               array_agg(t.started_at order by s.n, t.turn) filter (where s.n is not null),
               array_agg(t.id) filter (where t.fate = 'expired'),
               array_agg(t.id) filter (where t.fate = 'poisoned'),
               min(t.id), max(t.id)
        into v_id, v_item, v_receipt, v_started, v_expired, v_poisoned, v_first, v_last
        from turn t left join slot s on t.fate = 'free' and s.queue = t.name and t.turn > s.after
            and t.turn <= least(s.upto, t.in_all);

        if v_id is not null then
            v_items := v_items || v_item;
            v_all := v_all || v_id;
            if v_limit is not null then perform deferred.__message_running(v_limit, v_still, v_all);
            end if;
            return query
            with pick as materialized (
                select p.id, p.n, p.receipt, p.started_at, p.turn
                from unnest(v_id, v_item, v_receipt, v_started) with ordinality as p(id, n, receipt,
                    started_at, turn)),
            taken as (
                update deferred.__deferred_hot h
                set attempt = least(h.attempt, 2147483646) + 1,
                    receipt = uuid_hash_extended(gen_random_uuid(), 0), worker = null,
                    started_at = v_now,
                    due_at = v_now + ($3)[p.n] * interval '1 millisecond',
                    visible_at = v_now + ($3)[p.n] * interval '1 millisecond'
                from pick p where h.id = any (array[p.id])
                returning p.n, p.turn, h.id, h.receipt, h.attempt, h.expires_at, h.visible_at,
                          p.receipt as old_receipt, p.started_at as old_started_at),
            lost as (
                insert into deferred.__deferred_log (job_id, attempt, outcome, final, error,
                                                     started_at, receipt)
                select t.id, t.attempt - 1, 'lost', false,
                       'not finished before it was visible again', t.old_started_at, t.old_receipt
                from taken t where t.old_receipt is not null)
            select t.n, 0, t.id, t.receipt, t.attempt, d.created_at, t.expires_at, t.visible_at,
                   d.params
            from taken t cross join lateral (
                select d.created_at, d.params from deferred.__deferred d
                where d.id = t.id and d.id between v_first and v_last offset 0) d
            order by t.turn;
        end if;
        if v_expired is not null then perform deferred.__message_expire(v_expired); end if;
        if v_poisoned is not null then perform deferred.__message_poison(v_poisoned); end if;
        exit when v_expired is null and v_poisoned is null;
        v_more := 500;  -- where there are some to be ended there are often many
        v_given := array(select (select count(*)::integer from unnest(v_items) n
                                 where ($1)[n] = k.name)
                         from unnest(v_queue) with ordinality as k(name, i) order by k.i);
    end loop;
    return query
    select i.n::integer, case when q.name is null then 1 else 0 end, null::bigint, null::bigint,
           null::integer, null::timestamptz,
           null::timestamptz, null::timestamptz, null::json
    from unnest($1) with ordinality as i(queue, n)
    left join deferred.__deferred_queue q on q.name = i.queue and q.removed_at is null;
end
$$;
comment on function deferred.__message_get is
    'takes visible messages for some requests; no message goes to two of them';
grant execute on function deferred.__message_get to deferred_http;
