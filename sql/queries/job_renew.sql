-- job_renew: extend the lease of claimed jobs. The row moves to the tail of its lane, so that it does not
-- hold back the place from which claims start to look.
-- $1 id int8[], $2 receipt int8[], $3 lease in milliseconds, int8[]
-- returns one row for each job still ours: id (int8), renewed (bool). Not renewed: somebody else has the row
--   locked, say by a cancel not yet committed
-- locks: the hot rows; rows locked by others are left alone, or one of them would cost all the others their
--   lease. Index: primary key of __deferred_hot
with r as materialized (
    select * from unnest($1::int8[], $2::int8[], $3::int8[]) as r(id, receipt, lease_ms)),
ours as materialized (
    select h.id from r join deferred.__deferred_hot h on h.id = r.id and h.receipt = r.receipt and h.visible_at > now()),
free as materialized (
    select h.id, r.lease_ms from r join deferred.__deferred_hot h on h.id = r.id and h.receipt = r.receipt and h.visible_at > now()
    for update of h skip locked),
renewed as (
    update deferred.__deferred_hot h
    set visible_at = now() + free.lease_ms * interval '1 millisecond', xid = pg_current_xact_id()
    from free where h.id = free.id
    returning h.id)
select o.id, n.id is not null from ours o left join renewed n on n.id = o.id
