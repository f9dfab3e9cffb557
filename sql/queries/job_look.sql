-- job_look: where do the live rows of each part of the index of ready jobs begin, and the ready ones, and which transactions does
-- this statement not see? From that the next claims know where to start (lib/base/cursor.h). Sent behind job_claim in
-- the same transaction; what it finds is only believed once that is committed.
-- $1..$7 the parts, as $10..$16 of job_claim.sql
-- $8, $9 where the ready rows are looked for in each: first transaction xid8[], first id in it int8[]   $10 0: nowhere, int4
-- returns one row a part, in order: hole has ended (bool), first live row: priority (int4), xid (xid8), id (int8), all NULL
--   if none; first ready one: xid (xid8), id (int8), both NULL if none, or in a gap; and in each row: transactions in progress (xid8[], NULL: none), first transaction not yet begun (xid8), start
--   of the server (timestamptz)
-- locks: the first ready rows; those locked by others are passed over, for as long as somebody keeps one locked (a claim of a worker that
-- stalls, a cancel not yet committed) all that dies behind it would have to be walked over. Index: __deferred_hot_ready
with part as materialized (
    select s.*, s.hole is null or pg_visible_in_snapshot(s.hole, pg_current_snapshot()) as ended
    from unnest($1::text[], $2::int4[], $3::int4[], $4::xid8[], $5::int8[], $6::xid8[], $7::xid8[], $8::xid8[], $9::int8[])
        with ordinality as s(queue, high, low, from_xid, from_id, until_xid, hole, ready_xid, ready_id, no))
select p.ended, x.priority::int4, x.xid, x.id, r.xid, r.id,
       (select array_agg(t) from pg_snapshot_xip(pg_current_snapshot()) t), pg_snapshot_xmax(pg_current_snapshot()),
       deferred.__server_start()
from part p
left join lateral (
    (select h.priority, h.xid, h.id from deferred.__deferred_hot h
     where p.ended and h.queue = p.queue and h.priority = p.high and h.due_at is null and not h.limited and h.fn is not null
       and (h.xid, h.id) >= (p.from_xid, p.from_id) and h.xid < p.until_xid
     order by h.xid, h.id limit 1)
    union all
    (select h.priority, h.xid, h.id from deferred.__deferred_hot h
     where p.from_xid is null and h.queue = p.queue and h.priority between p.low and p.high and h.due_at is null and not h.limited and h.fn is not null
     order by h.priority desc, h.xid, h.id limit 1)) x on true
left join lateral (
    select h.xid, h.id from deferred.__deferred_hot h
    where $10::int4 > 0 and x.id is not null and h.queue = p.queue and h.priority = p.high and h.due_at is null and not h.limited and h.fn is not null
      and h.receipt is null and (h.xid, h.id) >= (p.ready_xid, p.ready_id) and h.xid < p.until_xid and p.from_xid is not null
    order by h.xid, h.id limit 1 for update skip locked) r on true
