-- job_claim: take up to $3 random jobs among the first $2 ready ones.
-- $1 queues served, text[]; NULL: all
-- $2 window: jobs looked at, int4          $3 jobs taken at most, int4
-- $4 worker id, int8                       $5 receipt of this claim, int8
-- $6 lease in milliseconds, int8           $7 default of max_attempts, int4
-- $8 functions unknown to this worker, text[]
-- $9 ids still held from earlier claims, int8[]
-- $10 seed of the random choice, int8
-- returns one row a job, in the order they should start: id (int8), attempt (int4), attempt_base (int4),
--   max_attempts (int4), timeout_ms (int8), backoff_floor_ms (int8), backoff_ceiling_ms (int8),
--   backoff_exponent (float8), created_at (timestamptz), wait_us (int8), fn, label, params,
--   ready jobs seen in the window (int8). None taken: one row, all NULL but the last column; that being
--   above 0 means others were quicker, and asking again makes sense
-- locks: the rows taken; rows locked by others are passed over, so workers never wait for each other.
-- Index: __deferred_hot_ready, then by tid; the update changes no indexed column (HOT).
--
-- A row whose lease has ended is ready like any other; taking it records the attempt that got lost.
-- Jobs past their expiry, and lost ones without attempts left, leave the queue here.
with seen as materialized (
    select h.tid, h.priority, h.xid, h.id
    from deferred.__deferred_queue q
    cross join lateral (
        select x.ctid as tid, x.priority, x.xid, x.id
        from deferred.__deferred_hot x
        where x.queue = q.name and x.due_at is null and x.visible_at <= now()
          and x.fn is not null and x.fn <> all ($8::text[])
        order by x.priority desc, x.xid, x.id
        limit $2::int4) h
    where ($1::text[] is null or q.name = any ($1)) and not q.paused),
first as materialized (
    select s.tid, s.priority, s.id from seen s order by s.priority desc, s.xid, s.id limit $2::int4),
pick as materialized (
    select f.tid from first f
    order by f.priority desc, hashint8extended(f.id, $10::int8), f.id limit $3::int4),
row as materialized (
    select h.ctid as tid, h.id, h.attempt, h.attempt_base, h.receipt, h.worker, h.started_at, h.visible_at, h.expires_at
    from pick join deferred.__deferred_hot h on h.ctid = pick.tid
    where h.due_at is null and h.visible_at <= now()
    for update of h skip locked),
job as materialized (
    select r.*, r.expires_at <= now() as expired,
           case when r.receipt is null then false
                else r.attempt - r.attempt_base >= coalesce(
                     (select d.max_attempts from deferred.__deferred d where d.id = r.id), $7::int4) end as used_up
    from row r),
taken as (
    update deferred.__deferred_hot h
    set attempt = h.attempt + 1, receipt = $5::int8, worker = $4::int8, started_at = now(),
        visible_at = now() + $6::int8 * interval '1 millisecond'
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
    set seen_at = now(), held = $9::int8[] || coalesce((select array_agg(t.id) from taken t), '{}')
    where w.id = $4::int8)
select t.id, t.attempt + 1, t.attempt_base, d.max_attempts, d.timeout_ms, d.backoff_floor_ms, d.backoff_ceiling_ms,
       d.backoff_exponent, d.created_at,
       (extract(epoch from now() - coalesce(case when t.receipt is null then t.visible_at end, t.started_at)) * 1000000)::int8,
       d.fn, d.label, d.params, s.n
from (select count(*) as n from first) s
left join (taken t join deferred.__deferred d on d.id = t.id) on true
