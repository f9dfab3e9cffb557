-- How ready jobs are handed out.
--
-- A lane is what is ready in one queue at one priority, in the order of (xid, id): xid is the
-- transaction that made a job ready. A claim does not touch the jobs. It writes down how far the
-- lane has been handed out (a place, shared by all workers), and who has what (a lease on a batch
-- of ids). So no claim looks at what others hold, at what is done, or at what is dead.
--
-- A place has two snapshots. What is visible in `done` has been handed out; of what is visible in
-- `cur` besides, all up to (xid, id).
-- What comes next are the jobs of transactions that were open in `done` and are not in `cur` (a
-- point look-up for each), and those with an xid between the two (one range of the index). When
-- they are used up, `cur` becomes `done`, and the next claim takes a fresh `cur`. A transaction
-- that stays open for hours costs nothing, one that commits late is not missed, whatever order the
-- numbers were given in.
--
-- What has to be known of a job to hand it out stands in its hot row, where who defers it has put
-- it: how many attempts it has, and how large its params are, where that is not as usual. So all is
-- decided by what the one scan has read, and calls are read once, to be handed out, those that are.
--
-- A lane is locked by locking its newest place: read first, without a lock, whether there is
-- anything; what is locked by another claim is passed while another lane has jobs, and waited for
-- only by a claim that holds nothing. Then each statement has a snapshot of its own, younger than
-- the lock. The next place is a row with the next number, added before the one before it is
-- deleted: under a held snapshot the newest is found first, and two who add the first one of a lane
-- meet at the primary key; who comes second looks again.
--
-- Fewer jobs than the window are drawn from it at random; the others stay in `rest`, each with its
-- xid, and come first next time. So do those whose row somebody has locked (a cancel not yet
-- committed), up to 1,000 of them, those beyond the budget for params, and those that need a lease
-- of their own, beyond what the worker can begin at once.
--
-- A lease holds a job while its hot row has an xid that is visible in the snapshot of the lease:
-- what is made ready again (retried, given back, lost, retried by hand) has a newer one, and is by
-- that out of every lease and every rest. A job that may not be handed out by the batch, for a
-- limit or because this worker has not its function, is put apart: deferred.__claim_limited() has
-- those. A job that is suspect, or has one attempt only, gets a lease of its own, and that claim
-- commits synchronously; any other asynchronously, so that the lock of a lane is never held for a
-- flush: a crash of the server that loses a claim leaves its jobs ready, and refuses the results of
-- whoever ran them. (This is why a claim is a transaction of its own: what it records must be
-- durable, and must not be visible to it in part.)
--
-- Each window that is read gets a lease of its own, with the snapshot it was read by: with a later
-- one, a job that was in both windows would be held by the lease, though it was made ready again in
-- between. tests/model explores every interleaving of all this.
--
-- What is stranded all the same, for a dump was restored or somebody wrote to the table by hand,
-- deferred.__repair() makes ready again.
create or replace function deferred.__claim(p_queue text, p_priority integer,
                                            p_share double precision, p_round integer, p_n integer,
                                            p_window integer,
    p_worker bigint, p_lease_ms bigint, p_max_attempts integer, p_known text[], p_seed bigint,
    p_max_bytes bigint)
returns table (id bigint, receipt bigint, attempt integer, attempt_base integer,
               max_attempts integer, timeout_ms bigint,
    backoff_floor_ms bigint, backoff_ceiling_ms bigint, backoff_exponent double precision,
    created_at timestamptz, ready_since timestamptz, fn text,
    label text, params json, queue text, priority integer, lease_ms bigint, alone boolean,
    cut boolean, tick timestamptz, previous_tick timestamptz,
    traceparent text, parents boolean, tid tid, claimed_at timestamptz)
language plpgsql
as $$
#variable_conflict use_column
declare
    -- kept for later, of jobs whose rows are locked; the others are repaired
    v_locked_max constant integer := 1000;
    v_few     constant integer := 16;  -- calls are found one by one
    v_gaps    constant integer := 2;   -- of the ids between a fourth at least is taken: else too
    c_last_seq constant bigint := 9223372036854775807;  -- only a forged place has it; 1 follows
    -- What is to be known of a candidate, in one number.
    c_touched constant integer := 1;   -- perhaps locked by somebody
    c_apart   constant integer := 2;   -- not handed out by the batch
    c_expired constant integer := 4;
    c_alone   constant integer := 8;   -- gets a lease of its own
    c_parents constant integer := 16;  -- may have been waited for
    v          deferred.__deferred_place;
    v_queue    deferred.__deferred_queue;
    v_limits   text[];    -- functions that are, if any
    v_lease_ms bigint;
    v_limited  boolean;   -- the queue is
    v_singly   integer;   -- how many attempts a job has that does not say it
    v_done     pg_snapshot;
    v_cur      pg_snapshot;
    v_xid      xid8;
    v_id       bigint;
    v_left     integer := current_setting('deferred.claim_left');
    v_begun    timestamptz;
    v_want     integer;
    v_most     integer;   -- candidates, at most
    v_all      boolean;   -- not drawn
    v_fresh    boolean := false;
    -- something was claimed before
    v_more     boolean := current_setting('deferred.claim_left')::integer < p_n;
    -- jobs that this claim may still put apart
    v_spare    integer := current_setting('deferred.claim_spare');
    -- of params, by what was claimed before
    v_used     bigint := current_setting('deferred.claim_bytes');
    -- that may still get a lease of their own
    v_alone    integer := current_setting('deferred.claim_alone');
    v_receipt  bigint;
    v_got      integer;
    v_goal     integer;
    v_said     text;
    -- The candidates, and what of them: found, of which the first v_again had been passed over
    -- before, with room for v_room others.
    v_ids      bigint[];
    v_xids     xid8[];
    v_tids     tid[];
    v_attempts integer[];
    v_attempt_bases integer[];
    v_ready_since timestamptz[];
    v_bytes    integer[];
    v_flags    integer[];
    v_flagged  integer;        -- all flags together
    v_found    integer;
    v_first    bigint;         -- the lowest id
    v_last     bigint;         -- the highest
    v_again    integer;
    v_room     integer;
    v_used_up  boolean;        -- there are no others in `cur`
    v_end      integer;        -- those behind it are left as if they had not been read
    v_free     bigint[];       -- touched, and not locked
    v_kept_xids xid8[];        -- left
    v_kept_ids bigint[];
    v_apart    bigint[];
    v_expired  bigint[];
    v_locked   bigint[];       -- of these two
    v_aside    integer;        -- these, and those of others than v_again that are locked
    -- What is taken: positions, those that share a lease, bytes of params, and how many have a
    -- lease of their own, under which receipts.
    v_picks    integer[];
    v_shared   bigint[];
    v_low      bigint;
    v_high     bigint;
    v_size     bigint;
    v_singles  integer;
    v_receipts bigint[];
    v_cut      boolean;
begin
    -- In the second round lanes that have more share what others could not give. The third is for
    -- who has nothing, and holds no lock: it waits for a lane that another claim is at.
    if v_left = 0 or v_spare <= 0 or (p_round = 2 and current_setting('deferred.claim_more') = '')
       or (p_round = 3 and (v_left < p_n or current_setting('deferred.claim_lock') <> 'busy')) then
        return;
    end if;
    v_begun := clock_timestamp();
    if not deferred.__lane_look(p_queue, p_priority) then
        v_said := set_config('deferred.claim_look',
                             (current_setting('deferred.claim_look')::interval
                              + (clock_timestamp() - v_begun))::text, true);
        return;
    end if;
    v_goal := case when p_round = 1 then least(v_left, ceil(v_left * p_share)) else v_left end;
    v_left := v_goal;
    select q.* into v_queue from deferred.__deferred_queue q where q.name = p_queue;
    v_lease_ms := coalesce(v_queue.visibility_timeout_ms, p_lease_ms);
    v_limited := coalesce(v_queue.max_running, v_queue.rate) is not null;
    v_singly := coalesce(v_queue.max_attempts, p_max_attempts);
    v_limits := nullif(array(select f.name from deferred.__deferred_function f), '{}');
    -- what is left of `cur`, and a fresh one; again, and of more, while there were some to be put
    -- aside, or locked
    for v_step in 1 .. 14 loop
        if p_round = 3 and v_step = 1 then
            -- Those who wait stand in line here: at the place itself each claim that ends would
            -- wake all of them, for one. Where the line is too long, the worker comes again.
            begin
                perform from deferred.__deferred_limit_guard g
                where g.n = any (array[(hashtextextended(p_queue || ' ' || p_priority,
                    0) & 1023)::integer + 1024]) for update;
            exception when lock_not_available then
                exit;
            end;
            -- each claim that is waited for deletes the row that was, and leaves another one
            for v_try in 1 .. 20 loop
                select p.* into v from deferred.__deferred_place p
                where p.queue = p_queue and p.priority = p_priority and p.seq = (
                    select n.seq from deferred.__deferred_place n
                    where n.queue = p_queue and n.priority = p_priority
                    order by n.queue desc, n.priority desc, n.seq desc limit 1) for update;
                exit when found;
            end loop;
        else
            -- The newest is looked for without a lock: one that is locked would be passed for all
            -- those before it that a held snapshot keeps.
            select p.* into v from deferred.__deferred_place p
            where p.queue = p_queue and p.priority = p_priority and p.seq = (
                select n.seq from deferred.__deferred_place n
                where n.queue = p_queue and n.priority = p_priority
                order by n.queue desc, n.priority desc, n.seq desc limit 1) for update skip locked;
        end if;
        if v.seq is null then
            perform from deferred.__deferred_place p where p.queue = p_queue
                and p.priority = p_priority
            order by p.queue desc, p.priority desc, p.seq desc limit 1;
            if not found then
                -- Else the insert would wait for another claim that is adding the first one; and
                -- would add it, though others have followed, if that claim has moved on since: so
                -- we look again, in a statement behind the lock.
                perform from deferred.__deferred_limit_guard g
                where g.n = any (array[(hashtextextended(p_queue || ' ' || p_priority,
                    0) & 1023)::integer + 1024]) for update skip locked;
                if found then
                    -- Written, so that deferred.__lock_unclaimed() with an older snapshot notices.
                    update deferred.__deferred_limit_guard g set n = g.n
                    where g.n = any (array[(hashtextextended(p_queue || ' ' || p_priority,
                        0) & 1023)::integer + 1024]);
                    insert into deferred.__deferred_place as p (queue, priority, seq, done, cur, id,
                        rest_xid, rest_id)
                    select p_queue, p_priority, 1, '1:1:', '1:1:', 0, '{}', '{}'
                    where not exists (select from deferred.__deferred_place x
                                      where x.queue = p_queue and x.priority = p_priority)
                    on conflict do nothing returning p.* into v;
                end if;
            end if;
        end if;
        if v.seq is null then
            if current_setting('deferred.claim_lock') = '' then
                v_said := set_config('deferred.claim_lock', 'busy', true);
            end if;
            exit;
        end if;
        if v_step = 1 then
            v_said := set_config('deferred.claim_lock', 'held', true);
        end if;

        v_done := v.done;
        v_cur := v.cur;
        v_xid := v.xid;
        v_id := v.id;
        if pg_snapshot_xmax(v_cur) > pg_snapshot_xmax(pg_current_snapshot()) then
            -- of another cluster, whose dump was restored here: no lease made here holds what is
            -- ready since then
            v_cur := '1:1:';
            v_xid := null;
            v.rest_xid := '{}';
            v.rest_id := '{}';
        end if;
        if v_xid is null then
            v_done := v_cur;
            v_cur := pg_current_snapshot();
            v_xid := '0';
            v_id := 0;
            v_fresh := true;
        end if;
        v_want := v_left;
        v_all := v_want >= p_window;
        v_most := greatest(v_want, p_window) << greatest(0, v_step - 4);

        -- The candidates, in order: those left over, those of transactions that were open in
        -- `done`, the range behind it. All columns of them that are needed, as arrays: a row that
        -- went through the steps below would cost as much as reading it.
        with rest as materialized (
            select h.* from unnest(v.rest_xid, v.rest_id) r(xid, id)
            cross join lateral (
                select h.ctid as tid, h.id, h.xid, h.xmax <> '0'::xid as touched, h.attempt,
                       h.attempt_base, h.visible_at, h.expires_at,
                       h.suspect, h.fn, h.watched, h.max_attempts, h.params_bytes
                from deferred.__deferred_hot h
                -- By its id: said openly, the rest would lead into the index of what is ready, all
                -- of it for each job while it seems small.
                where h.id = any (array[r.id]) and coalesce(h.xid = r.xid and h.due_at is null
                    and not h.limited and h.fn is not null, false)
                offset 0) h)
        select array_agg(f.id), array_agg(f.xid), array_agg(f.tid), array_agg(f.attempt),
               array_agg(coalesce(f.attempt_base, 0)), array_agg(f.visible_at),
               array_agg(f.bytes), array_agg(f.flags), bit_or(f.flags), min(f.id), max(f.id),
               min(f.id), max(f.id), sum(f.bytes), count(*), count(*) filter (where f.again),
               greatest(0, v_most - (select count(*) from rest r where not r.touched))
        into v_ids, v_xids, v_tids, v_attempts, v_attempt_bases, v_ready_since, v_bytes, v_flags,
            v_flagged, v_first, v_last, v_low, v_high, v_size, v_found, v_again, v_room
        from (
            select o.tid, o.id, o.xid, o.attempt, o.attempt_base, o.visible_at, o.again,
                   coalesce(o.params_bytes, 1024) as bytes,
                   -- All candidates that have expired, or are to be put apart, whether drawn or
                   -- not: or a claim of few would find nothing among many.
                   case when o.touched then c_touched else 0 end
                   + case when o.expires_at <= now() then c_expired
                          when v_limited or o.fn = any (v_limits)
                              or (p_known is not null and o.fn <> all (p_known)) then c_apart
                                  else 0 end
                   + case when o.suspect or coalesce(o.max_attempts, v_singly) = 1 then c_alone
                          else 0 end
                   + case when o.watched is not null then c_parents else 0 end as flags
            from (
                select r.*, true as again from rest r
                union all
                (select l.*, false from pg_snapshot_xip(v_done) s(xid)
                 cross join lateral (
                    select h.ctid as tid, h.id, h.xid, h.xmax <> '0'::xid as touched, h.attempt,
                           h.attempt_base, h.visible_at, h.expires_at,
                           h.suspect, h.fn, h.watched, h.max_attempts, h.params_bytes
                    from deferred.__deferred_hot h
                    where h.queue = p_queue and h.priority = p_priority and h.due_at is null
                      and not h.limited and h.fn is not null
                      -- were it "=", the order of the primary key would do, and all of that may be
                      -- walked
                      and h.xid between s.xid and s.xid
                      and (h.xid, h.id) > (v_xid, v_id)
                    order by h.queue, h.priority, h.xid, h.id limit v_most) l
                 where s.xid >= v_xid and pg_visible_in_snapshot(s.xid, v_cur)
                 union all
                 (select h.ctid, h.id, h.xid, h.xmax <> '0'::xid, h.attempt, h.attempt_base,
                  h.visible_at, h.expires_at, h.suspect, h.fn, h.watched,
                         h.max_attempts, h.params_bytes, false
                  from deferred.__deferred_hot h
                  where h.queue = p_queue and h.priority = p_priority and h.due_at is null
                    and not h.limited and h.fn is not null
                    and (h.xid, h.id) > (greatest(v_xid, pg_snapshot_xmax(v_done)),
                                         case when v_xid >= pg_snapshot_xmax(v_done) then v_id
                                              else 0 end)
                    and h.xid < pg_snapshot_xmax(v_cur) and pg_visible_in_snapshot(h.xid, v_cur)
                  order by h.queue, h.priority, h.xid, h.id limit v_most)
                 limit greatest(0, v_most - (select count(*) from rest r
                                             where not r.touched)))) o) f;
        v_used_up := v_found - v_again < v_room;
        exit when v_found = 0 and cardinality(v.rest_id) = 0
            and not (v_used_up and v.xid is not null);

        -- Which of them are taken, and which are left for the next claim.
        v_kept_xids := '{}';
        v_kept_ids := '{}';
        v_aside := 0;
        v_end := v_found;
        v_singles := 0;
        v_receipts := null;
        v_cut := null;
        if v_found <= v_want and (v_flagged & (c_touched | c_apart | c_expired | c_alone)) = 0
            and v_used + v_size <= p_max_bytes then
            v_picks := array(select generate_series(1, v_found));
            v_shared := v_ids;
        else
            if v_flagged & c_touched <> 0 then
                -- Of the row that is locked once more: before 15.15 a server may lock a later
                -- version, which was made ready since, by an earlier place.
                v_free := array(select h.id from deferred.__deferred_hot h
                                where h.ctid = any (array(select u.tid
                                    from unnest(v_tids, v_flags) u(tid, flags)
                                    where u.flags & c_touched <> 0))
                                  and pg_visible_in_snapshot(h.xid, v_cur)
                                for update skip locked);
            end if;
            if v_found > greatest(v_want, p_window) then
                select greatest(v_again, g.i) into v_end
                from (select u.i from unnest(v_ids, v_flags) with ordinality u(id, flags, i)
                      where u.flags & (c_apart | c_expired) = 0
                        and (u.flags & c_touched = 0 or u.id = any (v_free))
                      order by u.i offset greatest(v_want, p_window) - 1 limit 1) g;
                v_end := coalesce(v_end, v_found);
                v_used_up := v_used_up and v_end = v_found;
            end if;
            -- Where many were put aside the candidates are many more than the window: then it ends
            -- with as many good ones as it would have had, and what lies behind is read by the next
            -- claim. Else it would have to be passed over by each of them.
            select array_agg(c.i order by c.n) filter (where c.n <= v_want),
                   coalesce((array_agg(c.xid) filter (where not c.free
                                                      and c.i <= v_end))[:v_locked_max] ||
                                                          array_agg(c.xid) filter (where c.n >
                                                              v_want), '{}'),
                   coalesce((array_agg(c.id) filter (where not c.free
                                                     and c.i <= v_end))[:v_locked_max] ||
                                                         array_agg(c.id) filter (where c.n >
                                                             v_want), '{}'),
                   array_agg(c.id) filter (where c.free and c.flags & c_apart <> 0),
                   array_agg(c.id) filter (where c.free and c.flags & c_expired <> 0),
                   count(*) filter (where case when c.free then not c.good else c.i > v_again end)
            into v_picks, v_kept_xids, v_kept_ids, v_apart, v_expired, v_aside
            from (select b.*, case when b.free and b.good and b.i <= v_end then
                                  row_number() over (partition by b.free and b.good and b.i <= v_end
                                                     order by case when v_all then b.i
                                                         else hashint8extended(b.id,
                                                             p_seed) end) end as n
                  from (select u.*, u.flags & c_touched = 0
                        or u.id = any (v_free) as free, u.flags & (c_apart | c_expired) = 0 as good
                        from unnest(v_ids, v_xids, v_flags) with ordinality u(id, xid, flags,
                            i)) b) c;
            if v_apart is not null or v_expired is not null then
                v_locked := deferred.__claim_aside(p_queue, v_apart, v_expired);
                if v_locked <> '{}' then
                    select v_kept_xids || coalesce((array_agg(u.xid))[:v_locked_max], '{}'),
                           v_kept_ids || coalesce((array_agg(u.id))[:v_locked_max], '{}')
                    into v_kept_xids, v_kept_ids
                    from unnest(v_ids, v_xids) with ordinality u(id, xid, i)
                    where u.i <= v_end and u.id = any (v_locked);
                end if;
            end if;
            if v_flagged & c_alone = 0 and v_used + v_size <= p_max_bytes then
                select array_agg(v_ids[p.i]), min(v_ids[p.i]), max(v_ids[p.i]),
                       sum(v_bytes[p.i]) into v_shared, v_low, v_high, v_size
                from unnest(v_picks) p(i);
            else
                -- Of those picked, in order, those beyond the budget for params are left, but the
                -- first job of a claim; and those that would not begin at once, and must, or the
                -- end of their worker would count against them.
                select array_agg(y.i) filter (where not y.beyond),
                       array_agg(y.id) filter (where not y.beyond and not y.alone),
                       min(y.id) filter (where not y.beyond and not y.alone),
                       max(y.id) filter (where not y.beyond and not y.alone),
                       sum(y.bytes) filter (where not y.beyond),
                       count(*) filter (where not y.beyond and y.alone), bool_or(y.beyond),
                       v_kept_xids || array_agg(v_xids[y.i]) filter (where y.beyond),
                       v_kept_ids || array_agg(y.id) filter (where y.beyond)
                into v_picks, v_shared, v_low, v_high, v_size, v_singles, v_cut, v_kept_xids,
                    v_kept_ids
                from (select x.*, ((v_more or x.upto > x.bytes) and v_used + x.upto > p_max_bytes)
                      or (x.alone and x.alone_upto > v_alone) as beyond
                      from (select w.*, sum(w.bytes) over upto as upto,
                            count(*) filter (where w.alone) over upto as alone_upto
                            from (select p.i, v_ids[p.i] as id, v_bytes[p.i] as bytes,
                                  v_flags[p.i] & c_alone <> 0 as alone from unnest(v_picks) p(i)) w
                            window upto as (rows unbounded preceding)) x) y;
            end if;
            if v_singles > 0 then
                v_receipts := array(select case when u.flags & c_alone <> 0
                                                    and u.i = any (v_picks) then deferred.__random()
                                                        end
                                    from unnest(v_flags) with ordinality u(flags, i));
            end if;
        end if;

        if v.seq = c_last_seq then
            delete from deferred.__deferred_place p
            where p.queue = v.queue and p.priority = v.priority and p.seq = 1;
        end if;
        insert into deferred.__deferred_place (queue, priority, seq, done, cur, xid, id, rest_xid,
                                               rest_id)
        values (v.queue, v.priority, v.seq % c_last_seq + 1,
                case when v_used_up then v_cur else v_done end, v_cur,
                case when not v_used_up then case when v_end > v_again then v_xids[v_end]
                                                  else v_xid end end,
                case when v_end > v_again then v_ids[v_end] else v_id end, v_kept_xids, v_kept_ids);
        delete from deferred.__deferred_place p where p.queue = v.queue and p.priority = v.priority
            and p.seq = v.seq;
        v_got := coalesce(cardinality(v_picks), 0);
        if v_got > 0 then
            v_receipt := deferred.__random();
            if v_shared is not null then
                insert into deferred.__deferred_lease (queue, worker, receipt, ids, span, snap,
                                                       alone, expires_at)
                values (p_queue, p_worker, v_receipt, v_shared, int8range(v_low, v_high, '[]'),
                        v_cur, false, now() + v_lease_ms * interval '1 millisecond');
            end if;
            if v_singles > 0 then
                v_said := set_config('synchronous_commit', 'on', true);
                insert into deferred.__deferred_lease (queue, worker, receipt, ids, span, snap,
                                                       alone, expires_at)
                select p_queue, p_worker, v_receipts[p.i], array[v_ids[p.i]],
                       int8range(v_ids[p.i], v_ids[p.i], '[]'), v_cur, true,
                       now() + v_lease_ms * interval '1 millisecond'
                from unnest(v_picks) p(i) where v_receipts[p.i] is not null;
            end if;
            -- What is the same for all of them is said with the first. Calls are looked for between
            -- the first id and the last: that is known before the plan begins, and keeps it from
            -- opening the indexes of all other partitions.
            if v_singles = 0 and v_all and v_got >= v_few
                and v_high - v_low < v_got::bigint << v_gaps
               and (select count(*) = 2 and min(x.tableoid) = max(x.tableoid)
                    and min(x.tableoid) <> 'deferred.__deferred_default'::regclass
                    from deferred.__deferred x where x.id = any (array[v_low, v_high])
                        and x.id between v_low and v_high) then
                -- Many, most ids between, and all in one partition: their calls are read in one
                -- walk along its index, so that the first is the first, and each finds its place
                -- among the candidates. That takes a third of a look for each.
                return query
                with taken as materialized (
                    select array_agg(s.id) as ids, array_agg(s.i) as places
                    from (select v_ids[p.i] as id, p.i from unnest(v_picks) p(i) order by 1) s)
                select d.id, case when d.id = v_low then v_receipt end,
                       least(v_attempts[d.i], 2147483646) + 1, nullif(v_attempt_bases[d.i], 0),
                       coalesce(d.max_attempts, v_queue.max_attempts), d.timeout_ms,
                       coalesce(d.backoff_floor_ms, v_queue.backoff_floor_ms),
                       coalesce(d.backoff_ceiling_ms, v_queue.backoff_ceiling_ms),
                       coalesce(d.backoff_exponent, v_queue.backoff_exponent), d.created_at,
                       v_ready_since[d.i], coalesce(d.fn,
                                                    (select h.fn from deferred.__deferred_hot h
                                                     where h.id = any (array[d.id])))::text,
                                                         d.label, d.params,
                       case when d.id = v_low then p_queue end,
                       case when d.id = v_low then p_priority end,
                       case when d.id = v_low then v_lease_ms end,
                       null::boolean, v_cut, d.tick, d.previous_tick, d.traceparent,
                       case when v_flags[d.i] & c_parents <> 0 then true end, v_tids[d.i],
                       case when d.id = v_low then now() end
                from taken t
                cross join lateral (
                    select n.*, t.places[n.nth] as i
                    from (select x.*, width_bucket(x.id, t.ids) as nth from deferred.__deferred x
                          where x.id between v_low and v_high offset 0) n
                    where t.ids[n.nth] = n.id offset 0) d;
                get diagnostics v_found = row_count;
                v_picks := case when v_found < v_got then array(
                    select p.i from unnest(v_picks) p(i)
                    where not exists (select from deferred.__deferred x
                                      where x.id = any (v_ids[p.i:p.i])
                                        and x.id between v_low and v_high)) end;
            end if;
            if v_picks is not null then
                -- Few, or far apart: each by its id, said in a way that picks no partition, which
                -- costs more than a look in vain where the ids lie in two.
                return query
                select v_ids[p.i], case when p.n = 1
                                            or v_singles > 0 then coalesce(v_receipts[p.i],
                                                v_receipt) end, least(v_attempts[p.i],
                                                    2147483646) + 1,
                       nullif(v_attempt_bases[p.i], 0),
                       coalesce(d.max_attempts, v_queue.max_attempts),
                       d.timeout_ms, coalesce(d.backoff_floor_ms, v_queue.backoff_floor_ms),
                       coalesce(d.backoff_ceiling_ms, v_queue.backoff_ceiling_ms),
                       coalesce(d.backoff_exponent, v_queue.backoff_exponent), d.created_at,
                       v_ready_since[p.i],
                       coalesce(d.fn, (select h.fn from deferred.__deferred_hot h
                                       where h.id = v_ids[p.i]))::text, d.label, d.params,
                       case when p.n = 1 then p_queue end, case when p.n = 1 then p_priority end,
                       case when p.n = 1 then v_lease_ms end,
                       case when v_receipts[p.i] is not null then true end, v_cut, d.tick,
                       d.previous_tick, d.traceparent,
                       case when v_flags[p.i] & c_parents <> 0 then true end, v_tids[p.i],
                       case when p.n = 1 then now() end
                from unnest(v_picks) with ordinality p(i, n)
                left join lateral (select x.* from deferred.__deferred x
                                   where x.id = any (v_ids[p.i:p.i])
                                     and x.id between v_first and v_last limit 1) d on true;
            end if;
            v_used := v_used + v_size;
            v_alone := v_alone - v_singles;
            v_said := set_config('deferred.claim_bytes', v_used::text, true);
            v_said := set_config('deferred.claim_alone', v_alone::text, true);
            v_left := v_left - v_got;
            v_more := true;
        end if;
        -- What needs a lease of its own beyond what can begin, or more room for params, is left,
        -- and nothing more is read for it: it would be left too, and all that is left is looked at
        -- by each claim.
        v_spare := v_spare - v_aside;
        exit when v_left <= 0 or v_spare <= 0 or v_cut or (v_fresh and (v_aside = 0 or v_used_up));
    end loop;
    if v_spare < current_setting('deferred.claim_spare')::integer then
        v_said := set_config('deferred.claim_spare', v_spare::text, true);
    end if;
    v_said := set_config('deferred.claim_left',
                         (current_setting('deferred.claim_left')::integer - v_goal + v_left)::text,
                         true);
    if v_left > 0 then
        return;
    end if;
    v_said := set_config('deferred.claim_more', 'more', true);
    -- Those left over; and where there is more, as many again as one claim looks at: nobody counts
    -- them.
    v_said := set_config('deferred.claim_waiting',
                         (current_setting('deferred.claim_waiting')::bigint
        + cardinality(v_kept_ids) + case when v_used_up then 0
                                         else greatest(p_n, p_window) end)::text, true);
end
$$;
comment on function deferred.__claim is
    'claims ready jobs of one lane that no limit is about; what sql/queries/claim/job_claim.sql '
    'calls for each';
grant execute on function deferred.__claim to deferred_worker;
