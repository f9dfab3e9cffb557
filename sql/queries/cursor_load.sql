-- cursor_load: where the ready jobs begin, as an earlier run has saved it (lib/base/cursor.h). What a server said that has been started
-- again since is of no use, nor what is old; which lanes there are still is. The lane of priority 0 is
-- taken to be one of each queue, of the oldest ones where there are many.
-- $1 queues served, text[]; NULL: all   $2 lanes, at most, int4   $3 milliseconds after which it is old, int8
-- returns one row a lane: queue (text), priority (int4), xid (xid8), id (int8), both NULL: not known; transactions
--   left out (xid8[]), start of the server (timestamptz), milliseconds since it was learnt (int8)
-- locks: none
select l.queue, l.priority::int4, c.xid, c.id, c.holes, c.server, (extract(epoch from now() - c.learnt_at) * 1000)::int8
from (select k.queue, k.priority from deferred.__deferred_cursor k
      union
      (select q.name, 0 from deferred.__deferred_queue q
       where q.removed_at is null and ($1::text[] is null or q.name = any ($1)) order by q.created_at limit $2::int4)) l
left join deferred.__deferred_cursor c on c.queue = l.queue and c.priority = l.priority
    and c.server = deferred.__server_start()
    and c.learnt_at > now() - $3::int8 * interval '1 millisecond' and c.learnt_at <= now() and c.xid <= pg_snapshot_xmax(pg_current_snapshot())
where $1::text[] is null or l.queue = any ($1)
order by c.learnt_at desc nulls last, l.queue, l.priority desc
limit $2::int4
