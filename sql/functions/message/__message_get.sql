-- Messages are jobs without a function. Consumers that hold no connection put and take them: SQL,
-- and the HTTP front. Workers never look at one, because the indexes of what they claim leave
-- messages out, and __deferred_hot_message holds nothing else.
--
-- A message is visible if due_at is NULL or past. Taking a message sets due_at to the end of its
-- visibility timeout, so takers do not read hidden messages at the head of a queue. No process is
-- needed to make a message visible again. A taker reads both visible and due messages, and takes
-- those that have been visible longest.
--
-- This returns one row a message and, with id NULL, one row a request.
create or replace function deferred.__message_get(queues text[], counts integer[],
                                                  visibility_ms bigint[])
returns table (item integer, status integer, id bigint, receipt bigint, attempt integer,
               inserted_at timestamptz, expires_at timestamptz, visible_at timestamptz, params json)
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
    f          record;  -- what a round found
    v_items    integer[] := '{}';
    v_more     integer := 0;  -- rows looked at beyond those wanted
    v_limit    text[];  -- queues that have a limit
    v_still    json;    -- what the limits leave, as this statement found them
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
        select * into f
        from deferred.__message_find(v_queue, v_wanted, v_given, v_max, $1, $2, v_more, v_now);
        if f.ids is not null then
            v_items := v_items || f.items;
            v_all := v_all || f.ids;
            if v_limit is not null then
                perform deferred.__message_running(v_limit, v_still, v_all);
            end if;
            return query
            with taken as (
                update deferred.__deferred_hot h
                set attempt = least(h.attempt, 2147483646) + 1,
                    receipt = uuid_hash_extended(gen_random_uuid(), 0), worker = null,
                    started_at = v_now,
                    due_at = v_now + ($3)[p.n] * interval '1 millisecond',
                    visible_at = v_now + ($3)[p.n] * interval '1 millisecond'
                from unnest(f.ids, f.items, f.receipts, f.started) with ordinality
                     as p(id, n, receipt, started_at, turn)
                where h.id = any (array[p.id])
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
                where d.id = t.id and d.id between f.first_id and f.last_id offset 0) d
            order by t.turn;
        end if;
        if f.expired is not null then perform deferred.__message_expire(f.expired); end if;
        if f.poisoned is not null then perform deferred.__message_poison(f.poisoned); end if;
        exit when f.expired is null and f.poisoned is null;
        v_more := 500;  -- where there are some to be ended there are often many
        v_given := array(select (select count(*)::integer from unnest(v_items) n
                                 where ($1)[n] = k.name)
                         from unnest(v_queue) with ordinality as k(name, i) order by k.i);
    end loop;
    return query
    select i.n::integer, (q.name is null)::integer, null::bigint, null::bigint, null::integer,
           null::timestamptz, null::timestamptz, null::timestamptz, null::json
    from unnest($1) with ordinality as i(queue, n)
    left join deferred.__deferred_queue q on q.name = i.queue and q.removed_at is null;
end
$$;
comment on function deferred.__message_get is
    'takes visible messages for some requests; no message goes to two of them';
grant execute on function deferred.__message_get to deferred_http;
