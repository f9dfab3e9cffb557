-- why_job: what is known of one job.
-- params: job int8, counted int8
-- returns: there bool, last_id int8?, neighbour_s int8?, kept_s int8?, state text?, queue text?,
--   fn text?, outcome text?, attempts int8, failures int8, ended_s int8, leased bool,
--   lease_over bool, worker int8, worker_there bool, worker_ended bool, worker_rebooted bool,
--   worker_pid int8, worker_host text?, worker_unseen_s int8?, lease_left_s int8, claimed_s int8,
--   progress text?, due_in_s int8, ready_s int8, expires bool, expires_in_s int8, paused bool,
--   fn_unknown bool, refused_host text?, refused_why text?, row_locker text?, lane_locker text?,
--   stranded bool, priority int4, xid text?, limited bool, key text?, key_max int8, may_read bool,
--   queue_ready int8, taken_s int8?, flow int8, flow_waits_for int8, waits_for text?,
--   paused_by text?, paused_s int8?, worker_cut_off bool
-- $1 job id; $2 counted so far.
-- rows: one row: it is there, last id given out, seconds since the next job that is there was
--   deferred (NULL: there is none), what a purge leaves by age, seconds (NULL: none was), state,
--   queue, function, last outcome (NULL where there is none), attempts, those that count, seconds
--   since it ended; a lease is on it, which is over, worker, its registration is there, it ended,
--   its host was booted since, its pid, host, seconds it was not seen though it says regularly that
--   it lives (NULL: it does not), seconds the lease still lasts, seconds since it was made,
--   progress; seconds until it is due, seconds it is ready, it expires, seconds until it does, its
--   queue is paused, function is unknown to all workers, host that refuses it, why, its row is
--   locked by the transaction (NULL: it is not), that of its lane, it is stranded, priority,
--   position in its lane, limits may be about it, concurrency key, how many of that at once, errors
--   may be read, while the queue is paused jobs that are ready in it, $2 at most, seconds since a
--   message of its queue was taken that is there still, of 1,000 of them (NULL: none was), flow
--   that was opened and has not ended, whose callback it is, and the first job of that for whose
--   end is waited (NULL: none), the first jobs it waits for that have not ended, five at most
--   (NULL: none); who paused its queue, seconds since (NULL: not known); the session of its worker
--   is gone.
-- locks: none. Index: primary keys of __deferred, __deferred_hot, __deferred_queue,
--   __deferred_worker, __deferred_progress, __deferred_place and __deferred_flow_open;
--   __deferred_member_job, primary key of __deferred_edge, __deferred_log_job,
--   __deferred_lease_span; all of __deferred_offer. Of workers the newest 1,000
with job as materialized (
    select j.* from deferred.job j where j.id = $1::int8),
hot as materialized (
    select h.id, h.xid, h.fn, h.queue, h.priority, h.due_at, h.visible_at, h.attempt,
           h.attempt_base, h.started_at, h.expires_at, h.limited,
           h.concurrency_key, h.concurrency, h.xmax as locker
    from deferred.__deferred_hot h where h.id = $1),
-- Transactions that are open and have a number, prepared ones too; each holds a lock on it.
open as materialized (
    select l.transactionid from pg_catalog.pg_locks l
    where l.locktype = 'transactionid' and l.mode = 'ExclusiveLock' and l.granted
      and l.pid is distinct from pg_backend_pid()),
lease as materialized (
    select l.worker, l.claimed_at, l.expires_at
    from hot h
    cross join lateral (
        select l.worker, l.claimed_at, l.expires_at from deferred.__deferred_lease l
        where l.span @> h.id and h.id = any (l.ids) and pg_visible_in_snapshot(h.xid, l.snap)
        order by l.expires_at desc limit 1) l
    where h.fn is not null),
place as materialized (
    select p.done, p.cur, p.xid, p.id, p.rest_xid, p.rest_id, p.xmax as locker
    from hot h
    cross join lateral (
        select p.*, p.xmax from deferred.__deferred_place p
        where p.queue = h.queue and p.priority = h.priority
        order by p.queue desc, p.priority desc, p.seq desc limit 1) p
    where h.fn is not null and not h.limited and h.due_at is null)
select h.id is not null or j.id is not null as there,
       (select s.last_value from deferred.__deferred_id_seq s) as last_id,
       case when j.id is null then (
           select extract(epoch from clock_timestamp() - d.created_at)::int8
           from deferred.__deferred d where d.id > $1 order by d.id limit 1) end as neighbour_s,
       (select extract(epoch from clock_timestamp() - u.purged_at + u.purged_older)::int8
        from deferred.__deferred_upkeep u) as kept_s,
       j.state, j.queue, j.fn, j.last_outcome as outcome, coalesce(j.attempt, 0)::int8 as attempts,
       coalesce(h.attempt::int8 - coalesce(h.attempt_base, 0), 0) as failures,
       deferred.__age_s(j.finished_at) as ended_s,
       l.worker is not null as leased, l.expires_at <= clock_timestamp() as lease_over, l.worker,
       w.id is not null as worker_there, w.ended_at is not null as worker_ended,
       exists (select from (select x.* from deferred.__deferred_worker x where x.id > w.id
                            order by x.id desc limit 1000) n
               where n.host = w.host and split_part(n.instance, '@', 2) <> split_part(w.instance,
                   '@', 2)) as worker_rebooted,
       w.pid::int8 as worker_pid, w.host as worker_host,
       case when w.seen_at > w.started_at
                and w.ended_at is null then extract(epoch
                                                    from clock_timestamp() - w.seen_at)::int8
                                                        end as worker_unseen_s,
       -deferred.__age_s(coalesce(l.expires_at, case when h.fn is null
           then h.visible_at end)) as lease_left_s,
       extract(epoch from clock_timestamp() - coalesce(l.claimed_at,
                                                       h.started_at))::int8 as claimed_s,
       (select concat_ws(', ', concat_ws(' of ', p.done::text, p.total::text), p.text)
        from deferred.__deferred_progress p
        where p.job_id = h.id and p.attempt = h.attempt + 1 and l.worker is not null) as progress,
       -deferred.__age_s(nullif(h.due_at, 'infinity')) as due_in_s,
       deferred.__age_s(coalesce(nullif(h.due_at, 'infinity'), h.visible_at)) as ready_s,
       h.expires_at is not null as expires,
       -deferred.__age_s(h.expires_at - interval '0.5 s') as expires_in_s,
       coalesce(deferred.__is_paused(q), false) as paused,
       h.fn is not null and h.fn not in (select o.fn from deferred.__offered o)
           and exists (select from deferred.__deferred_offer) as fn_unknown,
       r.host as refused_host, r.why as refused_why,
       (select o.transactionid::text from open o where o.transactionid = h.locker
        limit 1) as row_locker, (select o.transactionid::text from open o
                                 where o.transactionid = p.locker limit 1) as lane_locker,
       coalesce(l.worker is null and h.due_at is null and p.done is not null
                and pg_snapshot_xmax(p.cur) <= pg_snapshot_xmax(pg_current_snapshot())
                and (pg_visible_in_snapshot(h.xid, p.done)
                     or (pg_visible_in_snapshot(h.xid, p.cur)
                         and (p.xid is null or (h.xid, h.id) <= (p.xid, p.id))))
                and not exists (select from unnest(p.rest_xid, p.rest_id) r(xid, id)
                                where r.id = h.id and r.xid = h.xid), false) as stranded,
       h.priority::int4, h.xid::text, coalesce(h.limited, false) as limited,
       j.concurrency_key as key, coalesce(h.concurrency, 1)::int8 as key_max,
       has_column_privilege('deferred.__deferred_log', 'error', 'select') as may_read,
       case when deferred.__is_paused(q) then (
           select count(*) from (
               select from deferred.__deferred_hot x where x.queue = h.queue and x.due_at is null
                   and not x.limited and x.fn is not null
               union all
               select from deferred.__deferred_hot x where x.queue = h.queue and x.due_at is null
                   and x.limited and x.concurrency_key is null and x.unknown in (false, true)
               union all
               select from deferred.__deferred_hot x where x.queue = h.queue and x.due_at is null
                   and x.concurrency_key is not null and x.fn is not null
               union all
               select from deferred.__deferred_hot x where x.queue = h.queue and x.due_at is null
                   and x.fn is null
               limit $2::int8) n) end as queue_ready,
       case when h.fn is null then (
           select extract(epoch from clock_timestamp() - max(x.started_at))::int8 from (
               select y.started_at from deferred.__deferred_hot y
               where y.queue = h.queue and y.fn is null order by y.queue, y.due_at
               limit 1000) x) end as taken_s,
       f.flow, f.waits_for as flow_waits_for,
       case when h.due_at = 'infinity' then (
           select string_agg(case when e.i <= 5 then format('job %s (%s)', e.parent,
               coalesce(coalesce(p.fn, 'message') || ', ' || p.state, 'purged'))
                   else '...' end, ', ' order by e.parent)
           from (select x.parent, row_number() over (order by x.parent) as i from (
                     select y.parent from deferred.__deferred_edge y
                     where y.child = h.id and y.what is null order by y.parent limit 6) x) e
           left join lateral (select x.fn, x.state from deferred.job x
                              where x.id = e.parent offset 0) p on true) end as waits_for,
       q.paused_by, extract(epoch from clock_timestamp() - q.paused_at)::int8 as paused_s,
       w.watch is not null and w.watch not in (select x.watch
                                               from deferred.__watching x) as worker_cut_off
from (select) one
left join job j on true
left join hot h on true
left join deferred.__deferred_queue q on q.name = h.queue
left join lease l on true
left join deferred.__deferred_worker w on w.id = l.worker
left join place p on true
left join lateral (
    select o.flow, o.waits_for from deferred.__deferred_member m
    join deferred.__deferred_flow_open o on o.flow = m.flow
    where m.job = h.id and m.part = 't' and h.due_at = 'infinity') f on true
left join lateral (
    select o.host, f.plugin as why from deferred.__deferred_offer o
    cross join lateral unnest(o.fn, o.plugin, o.max_attempts) f(fn, plugin, max_attempts)
    where f.fn = h.fn and f.max_attempts < 0 order by o.seen_at desc limit 1) r on true
