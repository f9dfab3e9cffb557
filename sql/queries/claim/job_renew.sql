-- job_renew: extend the leases of claimed jobs, and learn what became of those that are not ours
-- any more.
-- params: ids int8[], receipts int8[], leases int8[], lease_ms int8[]
-- returns: id int8?, receipt int8, left_ms int8, outcome text
-- $1 id, $2 receipt; $3 the receipts, each once, $4 lease in milliseconds of each.
-- Rows: one for each lease that is still ours: receipt and milliseconds until it ends. And one for
--   each job that is no longer ours: id, receipt, and what the log says of that claim (NULL:
--   nothing).
-- Locks: the leases; one that somebody else has locked is neither renewed nor gone, and must not
--   keep the others from being. Index: __deferred_lease_receipt, primary key of __deferred_hot,
--   __deferred_log_job.
with lease as materialized (
    select l.receipt, l.snap from deferred.__deferred_lease l
    where l.receipt = any ($3::int8[]) and l.expires_at - now() > interval '0'),
free as materialized (
    select l.ctid as tid, l.receipt from deferred.__deferred_lease l
    where l.receipt = any ($3::int8[]) and l.expires_at - now() > interval '0'
    for update skip locked),
renewed as materialized (
    update deferred.__deferred_lease l
    set expires_at = greatest(l.expires_at, now() + r.lease_ms * interval '1 millisecond')
    from unnest($3::int8[], $4::int8[]) as r(receipt, lease_ms) join free f on f.receipt = r.receipt
    where l.ctid = f.tid
    returning l.receipt, (extract(epoch from l.expires_at - now()) * 1000)::int8 as left_ms)
select null::int8 as id, n.receipt, max(n.left_ms) as left_ms, null as outcome from renewed n
group by n.receipt
union all
select r.id, r.receipt, null,
       (select l.outcome from deferred.__deferred_log l
        where l.job_id = r.id and (l.receipt = r.receipt or l.outcome = 'cancelled')
        order by l.finished_at desc limit 1)
from unnest($1::int8[], $2::int8[]) as r(id, receipt)
where not exists (
    select from lease l join deferred.__deferred_hot h on h.id = any (array[r.id])
        and pg_visible_in_snapshot(h.xid, l.snap)
    where l.receipt = r.receipt)
