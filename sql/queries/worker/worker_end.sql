-- worker_end: a run ends in order, with nothing in hand. A lease under which a result was refused
-- still holds a job. It stays until it is given up like any other, otherwise nobody would find that
-- job: see sql/functions/worker/__lost.sql.
-- params: worker int8
-- returns: nothing
-- Locks: its row, its track, what is left of its leases.
with track as (delete from deferred.__deferred_track where worker = $1::int8),
lease as (
    delete from deferred.__deferred_lease l
    where l.worker = $1::int8
      and not exists (select from unnest(l.ids) i(id)
                      join deferred.__deferred_hot h on h.id = any (array[i.id])
                          and pg_visible_in_snapshot(h.xid, l.snap)))
update deferred.__deferred_worker set ended_at = now(), seen_at = now() where id = $1::int8
