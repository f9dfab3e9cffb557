-- worker_open: transactions in progress. Those of them that deferred a job may have looked for
-- sleepers before worker_arm.sql, which goes before this statement. A snapshot lists only those
-- older than the newest transaction that has ended. The lock that each transaction holds on its own
-- number names the others, by the lower 32 bits.
-- params: none
-- returns: xid int8
-- Locks: none
select x::text::int8 as xid from pg_snapshot_xip(pg_current_snapshot()) as x
union
select n.xmax + (l.transactionid::text::int8 - n.xmax % 4294967296 + 6442450944) % 4294967296 -
    2147483648
from pg_locks l
cross join (select pg_snapshot_xmax(pg_current_snapshot())::text::int8 as xmax) n
where l.locktype = 'transactionid' and l.mode = 'ExclusiveLock' and l.granted
  and l.pid is distinct from pg_backend_pid()
