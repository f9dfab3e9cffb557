-- worker_end: a run ends in order.
-- $1 worker id, int8
-- returns nothing. Locks: its row
update deferred.__deferred_worker set ended_at = now(), seen_at = now(), held = '{}' where id = $1::int8
