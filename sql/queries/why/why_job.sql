-- why_job: what is known of one job.
-- params: job int8
-- returns: there bool, last_id int8?, neighbour_s int8?, kept_s int8?, state text?, queue text?,
--   fn text?, outcome text?, attempts int8, failures int8, ended_s int8, leased bool,
--   lease_over bool, worker int8, lease_left_s int8, claimed_s int8, progress text?, due_in_s int8,
--   ready_s int8, expires bool, expires_in_s int8, paused bool, fn_unknown bool,
--   refused_host text?, refused_why text?, row_locker text?, lane_locker text?, stranded bool,
--   priority int4, xid text?, limited bool, key text?, key_max int8, may_read bool, taken_s int8?,
--   key_state text?, steps text?
-- Rows: one row. Column neighbour_s is the age of the next job that is there. A purge leaves what
--   is younger than kept_s. Column failures counts the attempts that count. The host refuses the
--   function. The lockers are transactions that hold a lock on the job or its lane. A stranded job
--   was handed out, but nobody holds it. At most key_max jobs with its concurrency key may run. The
--   errors may be read if may_read. Column taken_s is the age of the last claim of a message of its
--   queue, of the first 1,000 that are there. Column key_state is about its key, not its
--   concurrency key.
-- Locks: none. Index: primary keys of __deferred, __deferred_hot, __deferred_queue,
--   __deferred_progress and __deferred_cursor; __deferred_log_job, __deferred_lease_span; all of
--   __deferred_offer
with job as materialized (
    select j.* from deferred.job j where j.id = $1::int8),
hot as materialized (
    select h.id, h.xid, h.fn, h.queue, h.priority, h.due_at, h.visible_at, h.attempt,
           h.attempt_base, h.started_at, h.expires_at, h.limited, h.concurrency, h.xmax as locker
    from deferred.__deferred_hot h where h.id = $1),
-- Transactions that are open and have a number, prepared ones too; each holds a lock on it.
open as materialized (
    select l.transactionid from pg_catalog.pg_locks l
    where l.locktype = 'transactionid' and l.mode = 'ExclusiveLock' and l.granted
      and l.pid is distinct from pg_backend_pid()),
lease as materialized (
    select l.worker, l.claimed_at, l.expires_at
    from hot h
    join deferred.__deferred_lease l on l.span @> h.id and h.id = any (l.ids)
        and pg_visible_in_snapshot(h.xid, l.snap)
    where h.fn is not null
    order by l.expires_at desc limit 1),
place as materialized (
    select p.*, p.xmax as locker
    from hot h
    join deferred.__deferred_cursor p on p.queue = h.queue and p.priority = h.priority
    where h.fn is not null and not h.limited and h.due_at is null
    order by p.queue desc, p.priority desc, p.seq desc limit 1)
select j.id is not null as there,
       (select case when s.is_called then s.last_value else 0 end
        from deferred.__deferred_id_seq s) as last_id,
       case when j.id is null then (
           select deferred.__age_s(d.created_at)
           from deferred.__deferred d where d.id > $1 order by d.id limit 1) end as neighbour_s,
       (select deferred.__age_s(u.purged_at - u.purged_older)
        from deferred.__deferred_upkeep u) as kept_s,
       j.state, j.queue, j.fn, j.last_outcome as outcome, coalesce(j.attempt, 0)::int8 as attempts,
       coalesce(h.attempt::int8 - coalesce(h.attempt_base, 0), 0) as failures,
       deferred.__age_s(j.finished_at) as ended_s,
       l.worker is not null as leased, l.expires_at <= clock_timestamp() as lease_over, l.worker,
       -deferred.__age_s(coalesce(l.expires_at, case when h.fn is null then h.visible_at end))
           as lease_left_s,
       deferred.__age_s(coalesce(l.claimed_at, h.started_at)) as claimed_s,
       (select concat_ws(', ', concat_ws(' of ', p.done::text, p.total::text), p.text)
        from deferred.__deferred_progress p
        where p.job_id = h.id and p.attempt = h.attempt + 1 and l.worker is not null) as progress,
       -deferred.__age_s(nullif(h.due_at, 'infinity')) as due_in_s,
       deferred.__age_s(coalesce(nullif(h.due_at, 'infinity'), h.visible_at)) as ready_s,
       h.expires_at is not null as expires,
       -deferred.__age_s(h.expires_at - interval '0.5 s') as expires_in_s,
       coalesce(deferred.__is_paused(q), false) as paused, u.unknown as fn_unknown,
       u.host as refused_host, u.why as refused_why,
       (select o.transactionid::text from open o where o.transactionid = h.locker limit 1)
           as row_locker,
       (select o.transactionid::text from open o where o.transactionid = p.locker limit 1)
           as lane_locker,
       coalesce(l.worker is null
                and pg_snapshot_xmax(p.cur) <= pg_snapshot_xmax(pg_current_snapshot())
                and (pg_visible_in_snapshot(h.xid, p.done)
                     or (pg_visible_in_snapshot(h.xid, p.cur)
                         and (p.xid is null or (h.xid, h.id) <= (p.xid, p.id))))
                and not exists (select from unnest(p.rest_xid, p.rest_id) r(xid, id)
                                where r.id = h.id and r.xid = h.xid), false) as stranded,
       h.priority::int4, h.xid::text, coalesce(h.limited, false) as limited,
       j.concurrency_key as key, coalesce(h.concurrency, 1)::int8 as key_max,
       has_column_privilege('deferred.__deferred_log', 'error', 'select') as may_read,
       case when h.fn is null then (
           select deferred.__age_s(max(x.started_at))
           from (select y.started_at from deferred.__deferred_hot y
                 where y.queue = h.queue and y.fn is null order by y.queue, y.due_at limit 1000) x)
       end as taken_s, deferred.__key_state(j.id) as key_state,
       (select format('%s step%s saved, the last is %s', count(*),
                      case when count(*) > 1 then 's' end,
                      (array_agg(s.name order by s.number desc))[1])
        from deferred.__deferred_step s where s.job_id = j.id having count(*) > 0) as steps
from (select) one
left join job j on true
left join hot h on true
left join deferred.__deferred_queue q on q.name = h.queue
left join lease l on true
left join place p on true
left join lateral deferred.__unoffered(h.fn) u on h.fn is not null
