-- job_release: give back claimed jobs that were not started; no attempt has been made.
-- params: ids int8[], receipts int8[], leases int8[], unknown_function int4[]
-- returns: id int8, released bool
-- $1 id. $2 receipt. $3 the receipts, each once.
-- $4   1: it has a function that this worker does not know, and is set aside
--   (sql/functions/claim/__claim.sql). 0: otherwise.
-- Rows: one row for each that is still ours: id, given back (false: somebody else has the row
--   locked, say a cancel not yet committed). A lease that has ended does not matter: while it holds
--   the job, nobody has taken it since.
-- Locks: the hot rows; rows locked by others are left alone, or one of them would hold up all that
--   is sent along. Index: primary key of __deferred_hot, __deferred_lease_receipt.
with lease as materialized (
    select l.receipt, l.snap from deferred.__deferred_lease l where l.receipt = any ($3::int8[])),
r as materialized (
    select * from unnest($1::int8[], $2::int8[], $4::int4[]) as r(id, receipt, set_aside)),
ours as materialized (
    select h.id from r join lease l on l.receipt = r.receipt
    join deferred.__deferred_hot h on h.id = any (array[r.id])
        and pg_visible_in_snapshot(h.xid, l.snap)),
free as materialized (
    select h.id, r.set_aside from r join lease l on l.receipt = r.receipt
    join deferred.__deferred_hot h on h.id = any (array[r.id])
        and pg_visible_in_snapshot(h.xid, l.snap)
    for update of h skip locked),
marked as (
    insert into deferred.__deferred_limited (queue)
    select distinct d.queue from free f join deferred.__deferred d on d.id = any (array[f.id])
    where f.set_aside = 1
      and not exists (select from deferred.__deferred_limited l where l.queue = d.queue)),
back as (
    update deferred.__deferred_hot h
    set receipt = null, worker = null, limited = h.limited or free.set_aside = 1,
        unknown = free.set_aside = 1 and h.concurrency_key is null
            and coalesce(h.fn <> all (deferred.__functions_offered()), false), visible_at = now(),
            xid = pg_current_xact_id()
    from free where h.id = any (array[free.id])
    returning h.id)
select o.id, o.id in (select b.id from back b) as released from ours o
