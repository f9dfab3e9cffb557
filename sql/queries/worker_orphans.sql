-- worker_orphans: give back what we claimed without learning of it, because the answer to the claim was
-- lost with the connection. No attempt has been made.
-- $1 worker id, int8   $2 ids we know of, int8[]
-- returns one row: number of jobs given back (int8)
-- locks: the hot rows. Index: primary key of __deferred_hot
with back as (
    update deferred.__deferred_hot h
    set receipt = null, worker = null, started_at = null, attempt = h.attempt - 1, visible_at = now(), xid = pg_current_xact_id()
    from (select i.id from deferred.__deferred_worker w cross join lateral unnest(w.held) as i(id) where w.id = $1::int8) held
    where h.id = any (array[held.id]) and h.worker = $1::int8 and h.visible_at > now() and held.id <> all ($2::int8[])
    returning 1)
select count(*) from back
