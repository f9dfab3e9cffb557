-- worker_end: a run ends in order.
-- $1 worker id, int8
-- returns nothing. Locks: its row, and its track
with track as (delete from deferred.__deferred_track where worker = $1::int8)
update deferred.__deferred_worker set ended_at = now(), seen_at = now(), held = '{}' where id = $1::int8
