-- job_release: give back claimed jobs that were not started; no attempt has been made.
-- $1 id int8[], $2 receipt int8[]
-- returns one row for each that is still ours: id (int8), given back (bool; false: somebody else has the row locked, say a
--   cancel not yet committed). A lease that has ended does not matter: the receipt tells that nobody has taken the job since
-- locks: the hot rows; rows locked by others are left alone, or one of them would hold up all that is sent along. Index:
--   primary key of __deferred_hot
with r as materialized (
    select * from unnest($1::int8[], $2::int8[]) as r(id, receipt)),
ours as materialized (
    select h.id from r join deferred.__deferred_hot h on h.id = any (array[r.id]) and h.receipt = r.receipt),
free as materialized (
    select h.id from r join deferred.__deferred_hot h on h.id = any (array[r.id]) and h.receipt = r.receipt
    for update of h skip locked),
back as (
    update deferred.__deferred_hot h
    set receipt = null, worker = null, started_at = null, attempt = h.attempt - 1, visible_at = now(), xid = pg_current_xact_id()
    from free where h.id = any (array[free.id])
    returning h.id)
select o.id, o.id in (select b.id from back b) from ours o
