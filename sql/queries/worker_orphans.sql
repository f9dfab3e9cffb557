-- worker_orphans: give back what we claimed without learning of it, because the answer to the claim was
-- lost with the connection. No attempt has been made. The server may be another one by now, a standby that lagged behind and
-- has given our number to somebody else: then nothing is ours.
-- $1 worker id, int8   $2 ids we know of, int8[]   $3 instance, text
-- returns one row: our registration is there (bool)
-- locks: the hot rows. Index: primary key of __deferred_hot
with me as (
    select w.held from deferred.__deferred_worker w where w.id = $1::int8 and w.instance = $3::text and w.ended_at is null),
back as (
    update deferred.__deferred_hot h
    set receipt = null, worker = null, started_at = null, attempt = h.attempt - 1, visible_at = now(), xid = pg_current_xact_id()
    from (select i.id from me cross join lateral unnest(me.held) as i(id)) held
    where h.id = any (array[held.id]) and h.worker = $1::int8 and h.visible_at > now() and held.id <> all ($2::int8[]))
select exists (select from me)
