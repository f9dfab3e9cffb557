-- job_lapsed: jobs that a claim without limits met and could not take as they were. One whose lease ended without a result gets that
-- attempt recorded as lost and is ready again, at the tail of its lane, or leaves the queue if it has no attempt left; one past its
-- expiry leaves the queue.
-- $1 id int8[]   $2 default of max_attempts, int4
-- returns one row: number of jobs (int8)
-- locks: the rows; those locked by others are left to them. Index: primary key of __deferred_hot
with row as materialized (
    select h.id, h.attempt, h.receipt, h.worker, h.started_at, h.expires_at, coalesce(h.expires_at <= now(), false) as expired,
           h.receipt is not null and h.attempt - h.attempt_base >= coalesce(
               (select coalesce(d.max_attempts, q.max_attempts)
                from deferred.__deferred d left join deferred.__deferred_queue q on q.name = d.queue where d.id = h.id), $2::int4) as used_up
    from deferred.__deferred_hot h
    where h.id = any ($1::int8[]) and h.due_at is null and h.visible_at <= now()
      and (h.receipt is not null or h.expires_at <= now())
    for update of h skip locked),
back as (
    update deferred.__deferred_hot h
    set receipt = null, worker = null, started_at = null, xid = pg_current_xact_id(), visible_at = now()
    from row r where h.id = any (array[r.id]) and not (r.expired or r.used_up)),
gone as (
    delete from deferred.__deferred_hot h using row r where h.id = any (array[r.id]) and (r.expired or r.used_up)),
lost as (
    insert into deferred.__deferred_log (job_id, attempt, outcome, final, error, started_at, worker, receipt)
    select r.id, r.attempt, 'lost', r.used_up, 'the lease ended before a result was recorded', r.started_at, r.worker, r.receipt
    from row r where r.receipt is not null),
expired as (
    insert into deferred.__deferred_log (job_id, attempt, outcome, final, error)
    select r.id, 0, 'expired', true, format('not started before %s', r.expires_at)
    from row r where r.expired and not r.used_up)
select count(*) from row
