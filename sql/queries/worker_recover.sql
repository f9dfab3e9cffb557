-- worker_recover: take over what earlier runs of this instance held. The caller holds the lock of the
-- pidfile, so they are known to be gone. Other instances are not touched.
-- $1 instance, text   $2 our worker id, int8
-- $3 outcome to record, text: interrupted, or superseded when we ended the previous run
-- $4 default of max_attempts, int4
-- returns one row an interrupted job: id (int8), fn (text), attempt (int4), final (bool)
-- locks: those workers, and the hot rows they hold; rows locked by others are left alone, the end of their lease frees them.
--   Index: primary key of __deferred_hot
with dead as (
    update deferred.__deferred_worker w set ended_at = now(), held = '{}'
    from (select x.id, x.held from deferred.__deferred_worker x
          where x.instance = $1::text and x.ended_at is null and x.id <> $2::int8 for update) old
    where w.id = old.id
    returning w.id, old.held),
held as materialized (
    select i.id, dead.id as worker from dead cross join lateral unnest(dead.held) as i(id)),
row as materialized (
    select h.id, h.fn, h.attempt, h.receipt, h.worker, h.started_at,
           h.attempt - h.attempt_base >= coalesce((select d.max_attempts from deferred.__deferred d where d.id = h.id),
               (select q.max_attempts from deferred.__deferred_queue q where q.name = h.queue), $4::int4) as final
    from held i join deferred.__deferred_hot h on h.id = any (array[i.id]) and h.worker = i.worker
    for update of h skip locked),
back as (
    update deferred.__deferred_hot h
    set receipt = null, worker = null, started_at = null, visible_at = now(), xid = pg_current_xact_id()
    from row where h.id = any (array[row.id]) and not row.final),
gone as (
    delete from deferred.__deferred_hot h using row where h.id = any (array[row.id]) and row.final),
log as (
    insert into deferred.__deferred_log (job_id, attempt, outcome, final, error, started_at, worker, receipt)
    select row.id, row.attempt, $3::text, row.final,
           case when $3::text = 'superseded' then 'replaced by a new start of check_deferred'
                else 'check_deferred died' end, row.started_at, row.worker, row.receipt
    from row)
select row.id, row.fn, row.attempt, row.final from row
