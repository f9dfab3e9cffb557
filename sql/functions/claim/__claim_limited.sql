-- queues: limits per queue, function and key; administration of queues.
--
-- A hot job that a limit may hold back carries a mark (limited) and lies in indexes of its own.
-- Claims of other jobs neither see nor lock anything of it. Marked jobs are claimed by
-- deferred.__claim_limited(). It locks one row of __deferred_limit for each limit in play, without
-- waiting. While the lock is held, that row is exact about running jobs and tokens. Running jobs
-- are looked up, not counted up and down. A job listed in the row counts while its hot row says
-- that it is claimed. So the end of a claim frees its place, even if the worker was killed. Each
-- job gets a lease of its own (sql/functions/claim/__claim.sql).
--
-- Claim up to n marked jobs. One call in a transaction, and the last thing in it but the commit.
--
-- Each statement of this function has a snapshot of its own. The last one reads while the rows of
-- the limits are locked. So it sees all that earlier holders of these locks have done. The function
-- does not wait for a row that another session has locked. Then it takes no job under this limit,
-- and `seen` says that asking again makes sense.
create or replace function deferred.__claim_limited(
    queues text[], n integer, n_rated integer, worker bigint, lease_ms bigint, max_attempts integer,
    known text[], seed bigint, max_bytes integer, n_alone integer, round text)
returns table (id bigint, receipt bigint, attempt integer, attempt_base integer,
               job_max_attempts integer, timeout_ms bigint, backoff_floor_ms bigint,
    backoff_ceiling_ms bigint, backoff_exponent double precision, created_at timestamptz,
    ready_since timestamptz, fn text, label text,
    params json, job_queue text, job_priority integer, job_lease_ms bigint, alone boolean,
    seen bigint, wait_ms bigint, start_ms bigint, tick timestamptz,
    previous_tick timestamptz, traceparent text, parents boolean, tid tid, claimed_at timestamptz,
    round_next text)
-- Lists of up to a hundred limits meet each other here; what the session rules out is right for the
-- big tables.
language plpgsql set search_path = pg_catalog, pg_temp set enable_hashjoin = on
as $$
#variable_conflict use_column
declare
    v_keys_looked constant integer := 300;  -- keys looked at in a queue, and
    v_keys_taken  constant integer := 100;  -- found free: then the search ends
    v_strange_most constant integer := 500;  -- names met of functions that are unknown here, and
    v_strange_jobs constant integer := 2000;  -- jobs set aside
    v_now    timestamptz := clock_timestamp();
    v_pivot  bigint := hashint8extended($8, 0);
    v_key    bigint;
    v_at     text collate "C";  -- queues up to there were looked at, in a round
    v_from   text collate "C";  -- that began there; NULL: it has ended
    v_over   boolean;           -- and has come to the first queue again
    v_round  text;
    v_served text[];
    v_turn   integer := 0;
    v_steps  integer := 0;
    -- through indexes; the next claim goes on with the next queue
    v_steps_most constant integer := least(600, 60 + 4 * n);
    v_offered text[];
    v_looked integer;
    v_found  integer;
    v_fn     text collate "C";
    v_queue  text collate "C";
    v_head   record;
    v_more   bigint[];
    -- names that this worker has not
    v_strange_queue text[] := '{}';
    v_strange_fn    text[] := '{}';
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
    if $1 is null then
        -- A worker that has not begun a round begins at a random queue. Otherwise a worker that
        -- begins again each time would never reach the last queues.
        v_at := case when $11 is not null then split_part($11, '/', 1)
                     else deferred.__any_queue(v_pivot) end;
        v_from := case when $11 like '%/%' then split_part($11, '/', 2) else v_at end;
        v_over := v_at < v_from;
    else
        v_served := array(select q.name from deferred.__limited_queues($1, null) q);
    end if;
    if $7 is null then
        -- A worker that has met no unknown function tries one job of those set aside, so that its
        -- runner tells which functions it has.
        select h.id, h.queue, h.fn into v_head
        from unnest(coalesce($1, array[null])) s(queue)
        cross join lateral (
            select h.id, h.queue, h.fn from deferred.__deferred_hot h
            where h.unknown and h.limited and h.due_at is null and h.concurrency_key is null
              and h.queue >= coalesce(s.queue, '') and h.queue <= coalesce(s.queue, '~')
            order by h.unknown, h.queue, h.fn, h.priority desc, h.id
            limit 1 for update skip locked) h
        where not exists (select from deferred.__deferred_queue q
                          where q.name = h.queue and deferred.__is_paused(q))
        order by hashtextextended(h.queue, v_pivot) limit 1;
        if found then
            update deferred.__deferred_hot h set unknown = false where h.id = v_head.id;
            v_lane_queue := array[v_head.queue::text];
            v_lane_fn := array[v_head.fn::text];
        end if;
    end if;
    loop
        if v_served is not null then
            v_turn := v_turn + 1;
            exit when v_turn > cardinality(v_served);
            v_queue := v_served[v_turn];
        else
            if v_over and v_at >= v_from then
                v_from := null;  -- all were looked at
                exit;
            end if;
            exit when v_steps >= v_steps_most;
            v_queue := deferred.__limited_next(v_at);
            v_steps := v_steps + 1;
            if v_queue is null or (v_over and v_queue > v_from) then
                v_at := case when v_over then v_from else '' end;
                v_over := true;
                continue;
            end if;
            v_at := v_queue;
        end if;
        continue when exists (select from deferred.__deferred_queue q
                              where q.name = v_queue and deferred.__is_paused(q));
        v_fn := '';
        loop
            select x.fn into v_fn from deferred.__deferred_hot x
            where x.queue = v_queue and x.limited and not x.unknown and x.concurrency_key is null
              and x.due_at is null and x.fn > v_fn
            order by x.unknown, x.queue, x.fn limit 1;
            exit when not found or ($7 is null and cardinality(v_lane_fn) >= v_strange_most);
            v_steps := v_steps + 1;
            if v_fn <> all ($7) then
                v_strange_queue := v_strange_queue || v_queue::text;
                v_strange_fn := v_strange_fn || v_fn::text;
                exit when cardinality(v_strange_fn) >= v_strange_most;
                continue;
            end if;
            continue when v_queue = v_lane_queue[1] and v_fn = v_lane_fn[1];  -- the one tried
            v_lane_queue := v_lane_queue || v_queue::text;
            v_lane_fn := v_lane_fn || v_fn::text;
        end loop;

        v_looked := 0;
        v_found := 0;
        v_key := v_pivot;
        for lap in 0..1 loop
            while v_looked < v_keys_looked and v_found < least(n, v_keys_taken) loop
                -- The first job of the next key. One that was deferred with a delay has not arrived
                -- yet; one that waits for its next attempt has.
                select x.id, x.fn, x.due_at, x.receipt, x.concurrency,
                       hashtextextended(x.concurrency_key, 0) as hash into v_head
                from deferred.__deferred_hot x
                where x.queue = v_queue and x.concurrency_key is not null
                  and hashtextextended(x.concurrency_key, 0) >= v_key
                  and x.fn is not null and (x.due_at is null
                                            or x.attempt > coalesce(x.attempt_base, 0))
                order by x.queue, hashtextextended(x.concurrency_key, 0), x.id limit 1;
                exit when not found or (lap = 1 and v_head.hash >= v_pivot);
                v_looked := v_looked + 1;
                v_steps := v_steps + 1;
                v_more := null;
                if v_head.concurrency > 1 then
                    select array_agg(y.id) into v_more from (
                        select x.id from deferred.__deferred_hot x
                        where x.queue = v_queue and x.concurrency_key is not null
                          and hashtextextended(x.concurrency_key, 0) = v_head.hash
                          and x.concurrency > 1
                          and x.due_at is null and x.receipt is null and x.fn is not null
                          and ($7 is null or x.fn = any ($7))
                        order by x.queue, hashtextextended(x.concurrency_key, 0), x.id
                        limit least(n, v_head.concurrency)) y;
                elsif v_head.due_at is null and v_head.receipt is null
                    and ($7 is null or v_head.fn = any ($7)) then
                    v_more := array[v_head.id];
                end if;
                if v_more is not null then
                    v_found := v_found + cardinality(v_more);
                    v_key_job := v_key_job || v_more;
                    v_key_queue := v_key_queue || array_fill(v_queue::text,
                        array[cardinality(v_more)]);
                    v_key_hash := v_key_hash || array_fill(v_head.hash::text,
                        array[cardinality(v_more)]);
                    if v_head.fn <> all (v_key_fn) then v_key_fn := v_key_fn || v_head.fn::text;
                    end if;
                end if;
                exit when v_head.hash = 9223372036854775807;
                v_key := v_head.hash + 1;
            end loop;
            v_key := -9223372036854775808;
        end loop;
    end loop;
    if v_strange_fn <> '{}' then
        -- Of functions that no worker has: met once, and then by no claim until one has them.
        v_offered := deferred.__functions_offered();
        update deferred.__deferred_hot h set unknown = true
        where h.id = any (array(
            select y.id from (
                select s.queue, s.fn from unnest(v_strange_queue, v_strange_fn) s(queue, fn)
                where v_offered is not null and s.fn not in (select unnest(v_offered))) s
            cross join lateral (
                select x.id from deferred.__deferred_hot x
                where x.queue = s.queue collate "C" and x.fn = s.fn collate "C" and x.limited
                  and not x.unknown and x.concurrency_key is null
                  and x.due_at is null and x.receipt is null
                order by x.unknown, x.queue, x.fn, x.priority desc, x.id
                limit v_strange_most for update skip locked) y
            limit v_strange_jobs));
    end if;
    v_round := v_at || case when v_from is not null then '/' || v_from else '' end;
    if v_lane_fn = '{}' and v_key_job = '{}' then
        return query
        select null::bigint, null::bigint, null::integer, null::integer, null::integer,
               null::bigint, null::bigint, null::bigint, null::double precision,
               null::timestamptz, null::timestamptz, null::text, null::text, null::json, null::text,
               null::integer, null::bigint, null::boolean, 0::bigint,
               null::bigint, null::bigint, null::timestamptz, null::timestamptz, null::text,
               null::boolean, null::tid, null::timestamptz, v_round
        where v_from is not null;
        return;
    end if;

    v_queues := array(select q.name from deferred.__deferred_queue q
                      where coalesce(q.max_running, q.rate) is not null
                        and q.name = any (v_lane_queue || v_key_queue));
    -- Those of a key with concurrency above 1 may have other functions than its first job.
    v_fns := array(select f.name from deferred.__deferred_function f
                   where v_key_fn <> '{}' or f.name = any (v_lane_fn));
    select array_agg(w.kind), array_agg(w.queue), array_agg(w.name), count(*) into v_kind, v_of,
           v_name, v_wanted
    from (select 'queue' as kind, q as queue, '' as name from unnest(v_queues) q
          union all select 'function', '', f from unnest(v_fns) f
          union all (select distinct 'key', k.queue, k.hash
                     from unnest(v_key_queue, v_key_hash) k(queue, hash))) w;
    -- Else an insert would wait for another claim that is adding the same row.
    with missing as materialized (
        select w.kind, w.queue, w.name,
               (hashtextextended(w.kind || ' ' || w.queue || ' ' || w.name, 0) & 1023)::integer as n
        from unnest(v_kind, v_of, v_name) w(kind, queue, name)
        where not exists (select from deferred.__deferred_limit l
                          where l.kind = w.kind collate "C" and l.queue = w.queue collate "C"
                            and l.name = w.name collate "C")),
    guard as materialized (
        select g.n from deferred.__deferred_limit_guard g
        where g.n = any (array(select m.n from missing m)) for update skip locked)
    insert into deferred.__deferred_limit (kind, queue, name)
    select m.kind, m.queue, m.name from missing m where m.n = any (array(select g.n from guard g))
    on conflict do nothing;
    with ours as materialized (
        select l.kind, l.queue, l.name
        from unnest(v_kind, v_of, v_name) w(kind, queue, name)
        join deferred.__deferred_limit l
          on l.kind = w.kind collate "C" and l.queue = w.queue collate "C"
            and l.name = w.name collate "C"
        for update of l skip locked)
    select coalesce(array_agg(o.kind), '{}'), coalesce(array_agg(o.queue), '{}'),
           coalesce(array_agg(o.name), '{}')
    into v_kind, v_of, v_name from ours o;

    v_now := clock_timestamp();  -- later than any holder before us looked at the clock
    return query
    with lim as materialized (
        select l.kind, l.queue, l.name, r.still, s.rate, s.broken, t.tokens,
               greatest(0, least(1000000000, s.max_running - cardinality(r.still),
                                 floor(t.tokens)))::integer as room,
               cardinality(r.still) as running
        from unnest(v_kind, v_of, v_name) w(kind, queue, name)
        join deferred.__deferred_limit l
          on l.kind = w.kind collate "C" and l.queue = w.queue collate "C"
            and l.name = w.name collate "C"
        cross join lateral (
            select array(select h.id from unnest(l.running) i
                         join deferred.__deferred_hot h on h.id = any (array[i])
                         where h.receipt is not null) as still) r
        left join lateral (
            select q.max_running, q.rate, coalesce(q.burst, 1) as burst, false as broken
            from deferred.__deferred_queue q
            where l.kind = 'queue' and q.name = l.queue
            union all
            select f.max_running, f.rate, coalesce(f.burst, 1), f.broken_at is not null
            from deferred.__deferred_function f
            where l.kind = 'function' and f.name = l.name) s on true
        cross join lateral (
            select case when s.rate is not null then
                least(s.burst, case when l.tokens is not null
                                        and l.tokens_at < v_now + interval '1 day'
                    then greatest(0, l.tokens)
                         + greatest(0, extract(epoch
                                               from v_now - l.tokens_at))::double precision * s.rate
                    else s.burst end)
                end as tokens) t),
    -- A limit that is in force but not ours closes what it is about.
    open_lane as materialized (
        select g.queue, g.fn, least(q.rate, f.rate) as rate, least(n, q.room, f.room) as room,
               coalesce(f.broken, false) as broken
        from unnest(v_lane_queue, v_lane_fn) g(queue, fn)
        left join lim q on q.kind = 'queue' and q.queue = g.queue
        left join lim f on f.kind = 'function' and f.name = g.fn
        where (q.room is not null or g.queue <> all (v_queues))
          and (f.room is not null or g.fn <> all (v_fns))),
    cand as materialized (
        select x.tid, x.id, x.priority, g.queue, g.fn, null as hash, g.rate
        from open_lane g
        cross join lateral (
            select y.ctid as tid, y.id, y.priority from deferred.__deferred_hot y
            where y.queue = g.queue collate "C" and y.fn = g.fn collate "C" and y.limited
              and y.concurrency_key is null
              and y.due_at is null and y.receipt is null and not y.unknown
            order by y.unknown, y.queue, y.fn, y.priority desc, y.id
            limit g.room) x
        where not g.broken
        union all
        -- The trial of a function that the breaker paused: of a random role, whatever the priority.
        select x.tid, x.id, x.turn, g.queue, g.fn, null, g.rate
        from open_lane g
        cross join lateral (
            select w.tid, w.id, (hashtextextended(d.created_by, $8) & 32767)::smallint as turn
            from ((select y.ctid as tid, y.id from deferred.__deferred_hot y
                   where y.queue = g.queue collate "C" and y.fn = g.fn collate "C" and y.limited
                     and y.concurrency_key is null and y.due_at is null and y.receipt is null
                     and not y.unknown
                   order by y.unknown, y.queue, y.fn, y.priority desc, y.id limit 500)
                  union
                  (select y.ctid, y.id from deferred.__deferred_hot y
                   where y.queue = g.queue collate "C" and y.fn = g.fn collate "C" and y.limited
                     and y.concurrency_key is null and y.due_at is null and y.receipt is null
                     and not y.unknown
                   order by y.unknown desc, y.queue desc, y.fn desc, y.priority, y.id desc
                   limit 500)) w
            cross join lateral deferred.__call(w.id) d
            order by turn desc, w.id limit g.room) x
        where g.broken and g.room > 0
        union all
        select k.tid, k.id, k.priority, k.queue, k.fn, k.hash, least(q.rate, f.rate)
        from (select h.ctid as tid, h.id, h.priority, h.queue, h.fn, j.hash,
              coalesce(h.concurrency, 1) as concurrency, l.running,
                     row_number() over (partition by h.queue, j.hash order by h.id) as turn
              from unnest(v_key_job, v_key_hash) j(id, hash)
              join deferred.__deferred_hot h on h.id = any (array[j.id])
              join lim l on l.kind = 'key' and l.queue = h.queue and l.name = j.hash
              where h.due_at is null and h.receipt is null) k
        left join lim q on q.kind = 'queue' and q.queue = k.queue
        left join lim f on f.kind = 'function' and f.name = k.fn
        where k.turn <= k.concurrency - k.running
          and (q.room is not null or k.queue <> all (v_queues))
          and (f.room is not null or k.fn <> all (v_fns))),
    -- Each cut leaves fewer, so no limit is exceeded; what a cut wastes, the next claim takes.
    by_fn as materialized (
        select c.*, row_number() over (partition by c.fn order by c.priority desc, c.id) as turn
        from cand c),
    by_queue as materialized (
        select c.tid, c.id, c.priority, c.queue, c.fn, c.hash, c.rate,
               row_number() over (partition by c.queue order by c.priority desc, c.id) as turn
        from by_fn c left join lim f on f.kind = 'function' and f.name = c.fn
        where c.turn <= coalesce(f.room, 2147483647)),
    shared as materialized (
        select c.tid, c.id, c.queue, c.fn, c.hash, c.rate, q.visibility_timeout_ms,
               (c.turn - 1 - ln(((hashtextextended(c.queue,
                                                   $8) & 9007199254740991) + 1)::float8 /
                                                       9007199254740992::float8))
               / coalesce(q.weight, 1) as turn
        from by_queue c left join deferred.__deferred_queue q on q.name = c.queue
        left join lim l on l.kind = 'queue' and l.queue = c.queue
        where c.turn <= coalesce(l.room, n)),
    pick as materialized (
        select s.* from (select x.*, row_number() over (partition by x.rate is null
                                                        order by x.turn, x.id) as at
                                                        from shared x) s
        where s.rate is null or s.at <= $3
        order by s.turn, s.id limit n),
    row as materialized (
        select h.ctid as tid, h.id, h.attempt, h.attempt_base, h.visible_at, h.expires_at,
               h.suspect, h.watched is not null as parents,
               h.priority, p.queue, p.fn, p.hash, p.turn, p.rate,
               coalesce(p.visibility_timeout_ms, $5) as lease_ms, h.max_attempts,
               coalesce(h.params_bytes, 1024) as bytes
        from pick p join deferred.__deferred_hot h on h.ctid = p.tid
        -- One that was claimed without limits while these were being set is held, though its row
        -- does not say so.
        where h.due_at is null and h.receipt is null
          and pg_visible_in_snapshot(h.xid, pg_current_snapshot())
          and not exists (select from deferred.__deferred_lease l
                          where l.span @> h.id and h.id = any (l.ids)
                            and pg_visible_in_snapshot(h.xid, l.snap))
        for update of h skip locked),
    -- As in __claim.sql, take as many runnable jobs as their params allow, and at least one. Of
    -- jobs with one attempt take no more than can begin.
    able as materialized (
        select y.*, deferred.__random() as receipt, y.alone and y.expired is not true
            and y.alone_upto > n_alone as waits from (
            select x.*, sum(x.bytes) filter (where x.expired is not true) over (order by x.turn,
                x.id) as upto,
                   count(*) filter (where x.alone
                                    and x.expired is not true) over (order by x.turn,
                                        x.id) as alone_upto
            from (select r.*, r.expires_at <= v_now as expired,
                         coalesce(r.suspect, false) or coalesce(r.max_attempts,
                                (select q.max_attempts from deferred.__deferred_queue q
                                 where q.name = r.queue), $6) = 1 as alone
                  from row r) x) y
        where y.expired or y.upto = y.bytes or y.upto <= $9),
    job as (
        select a.* from able a where not a.waits),
    taken as (
        update deferred.__deferred_hot h set receipt = j.receipt, worker = $4
        from job j where h.ctid = j.tid and j.expired is not true
        returning j.*, h.ctid as at),
    lease as (
        insert into deferred.__deferred_lease (queue, worker, receipt, ids, span, snap, alone,
                                               expires_at)
        select t.queue, $4, t.receipt, array[t.id], int8range(t.id, t.id, '[]'),
               pg_current_snapshot(), t.alone,
               now() + t.lease_ms * interval '1 millisecond'
        from taken t),
    gone as (
        delete from deferred.__deferred_hot h using job j
        where h.ctid = j.tid and j.expired
        returning h.id, case when h.watched then deferred.__note_end(h.id, 0, 'expired')
                             else 0 end as attempt, h.expires_at),
    expired as (
        insert into deferred.__deferred_log (job_id, attempt, outcome, final, error)
        select g.id, g.attempt, 'expired', true, format('not started before %s', g.expires_at)
        from gone g),
    new as materialized (
        select u.kind, u.queue, u.name, array_agg(u.id) as ids
        from (select 'queue' as kind, t.queue, '' as name, t.id from taken t
              union all select 'function', '', t.fn, t.id from taken t
              union all select 'key', t.queue, t.hash, t.id from taken t where t.hash is not null) u
        group by u.kind, u.queue, u.name),
    stand as (
        update deferred.__deferred_limit l
        set running = m.still || coalesce(a.ids, '{}'),
            tokens = m.tokens - coalesce(cardinality(a.ids), 0), tokens_at = v_now,
            used_at = v_now
        from lim m left join new a on a.kind = m.kind and a.queue = m.queue and a.name = m.name
        where l.kind = m.kind and l.queue = m.queue and l.name = m.name
          and (a.ids is not null or m.still <> l.running))
    select t.id, t.receipt, least(t.attempt, 2147483646) + 1, t.attempt_base,
           coalesce(d.max_attempts, q.max_attempts), d.timeout_ms,
           coalesce(d.backoff_floor_ms, q.backoff_floor_ms),
           coalesce(d.backoff_ceiling_ms, q.backoff_ceiling_ms),
           coalesce(d.backoff_exponent, q.backoff_exponent), d.created_at,
           t.visible_at, d.fn::text, d.label, d.params, t.queue::text, t.priority::integer,
           t.lease_ms,
           case when t.alone then set_config('synchronous_commit', 'on', true) = 'on' end, s.n,
           (select greatest(1, ceil(min((1 - m.tokens) / m.rate) * 1000))::bigint from lim m
            where m.tokens < 1 having count(*) > 0),
           -- Counted by the worker from the moment it sent the transaction, which may have been at
           -- other things first.
           case when t.rate is not null
                    then greatest(40, least(86400000, floor(800 / t.rate)))::bigint
                                             + floor(extract(epoch from v_now - now()) *
                                                     1000)::bigint end,
           d.tick, d.previous_tick, d.traceparent, t.parents, t.at, now(), v_round
    from (select (select count(*) from pick) - (select count(*) from able a
                                                where a.waits) + (v_wanted >
                                                    cardinality(v_kind))::integer as n) s
    left join (taken t cross join lateral deferred.__call(t.id) d
               left join deferred.__deferred_queue q on q.name = t.queue) on true
    order by t.turn, t.id;
end
$$;
grant execute on function deferred.__claim_limited to deferred_worker;
