-- worker_orphans: give back what we claimed without learning of it, because the answer to the claim
-- was lost with the connection. No attempt has been made. The server may be another one by now, a
-- standby that lagged behind and has given our number to somebody else: then nothing is ours.
-- params: worker int8, receipts int8[], instance text, server_pid int4, watch int4
-- returns: registered bool, isolation text
-- $2: the receipts that we know. $4, $5: as $7 and $8 of worker_register.sql.
-- Locks: our row, the leases and hot rows; advisory, for the session: (1145390673, $5). Index:
--   primary keys of __deferred_worker and __deferred_hot, __deferred_lease_worker.
with me as materialized (
    update deferred.__deferred_worker w
    set watch = case when $4::int4 = pg_backend_pid()
                         then case when pg_try_advisory_lock(1145390673, $5::int4) then $5 end end
    where w.id = $1::int8 and w.instance = $3::text and w.ended_at is null
    returning 1),
gone as (
    delete from deferred.__deferred_lease l
    where l.worker = $1::int8 and l.receipt <> all ($2::int8[]) and exists (select from me)
    returning l.ids, l.snap),
back as (
    update deferred.__deferred_hot h
    set receipt = null, worker = null, visible_at = now(), xid = pg_current_xact_id()
    from (select i.id, g.snap from gone g cross join lateral unnest(g.ids) as i(id)) held
    where h.id = any (array[held.id]) and pg_visible_in_snapshot(h.xid, held.snap))
select exists (select from me) as registered,
       case when $4 = pg_backend_pid() then set_config('default_transaction_isolation',
                                                       'read committed', false) end as isolation
