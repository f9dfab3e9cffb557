-- Returns ready jobs that have not been handed out, without a lock. It is for people. It returns at
-- most p_most jobs of each lane, and p_all of all lanes (NULL: no limit). p_queues limits it to
-- some queues (NULL: all). The priority and (xid, id) limit it to jobs that come before that
-- position in each queue (NULL: all). As in sql/functions/claim/__lane_look.sql, rows before the
-- cursor of a lane are not read. So an answer takes no longer while somebody holds a snapshot and
-- dead rows cannot be removed. That is when people ask. Those that nobody holds though they were
-- handed out, for a lease is over, are not among them.
--
-- Whatever the planner thinks of it: an order that only the index has, and nothing to be read
-- besides.
create or replace function deferred.__ready(p_queues text[], p_priority integer, p_xid xid8,
                                            p_id bigint, p_most bigint,
                                            p_all bigint default null)
returns table (queue text, priority smallint, id bigint, fn text, visible_at timestamptz)
language sql stable
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off
set enable_mergejoin = off set enable_nestloop = on
as $$
with lane as materialized (
    select l.queue, l.priority, p.rest_xid, p.rest_id, p.xid, p.id, p.cur, p.done,
           greatest(coalesce(p.xid, '0'),
                    pg_snapshot_xmax(case when p.xid is null then p.cur else p.done end),
                    '0') as from_xid,
           case when p.xid >= pg_snapshot_xmax(p.done) then p.id else 0 end as from_id,
           coalesce(case when l.priority = p_priority then p_xid end,
                    '18446744073709551615') as to_xid, coalesce(p_id, 0) as to_id
    from deferred.__lanes(p_queues, null) l
    left join lateral (
        select x.* from deferred.__deferred_cursor x where x.queue = l.queue
            and x.priority = l.priority
        order by x.queue desc, x.priority desc, x.seq desc limit 1) p
            on pg_snapshot_xmax(p.cur) <= pg_snapshot_xmax(pg_current_snapshot())
    where p_priority is null or l.priority >= p_priority)
select l.queue, l.priority, j.id, j.fn, j.visible_at
from lane l
cross join lateral (
    (select h.id, h.fn, h.visible_at from unnest(l.rest_xid, l.rest_id) r(xid, id)
     cross join lateral (
        select h.id, h.fn, h.visible_at from deferred.__deferred_hot h
        where h.id = any (array[r.id]) and h.xid = r.xid and h.due_at is null
          and not h.limited offset 0) h
     where (r.xid, r.id) < (l.to_xid, l.to_id))
    union all
    (select h.id, h.fn, h.visible_at from deferred.__deferred_hot h
     where h.queue = l.queue and h.priority = l.priority
       and deferred.__in_lane(h.due_at, h.limited, h.fn)
       and (h.xid, h.id) > (l.from_xid, l.from_id)
       and (h.xid, h.id) < (l.to_xid, l.to_id)
     order by h.queue, h.priority, h.xid, h.id limit p_most)
    union all
    -- Jobs of transactions that were open when the snapshots were taken, and have committed since.
    (select h.id, h.fn, h.visible_at
     from (select x from pg_snapshot_xip(l.cur) x union select x from pg_snapshot_xip(l.done) x
           where l.xid is not null and x >= l.xid) o
     cross join lateral (
        select h.id, h.fn, h.visible_at from deferred.__deferred_hot h
        where h.queue = l.queue and h.priority = l.priority
          and deferred.__in_lane(h.due_at, h.limited, h.fn)
          and h.xid between o.x and o.x
          and (o.x <> coalesce(l.xid, '0') or h.id > l.id) and (h.xid, h.id) < (l.to_xid, l.to_id)
        order by h.queue, h.priority, h.xid, h.id limit p_most) h)
    limit p_most) j
limit p_all
$$;
comment on function deferred.__ready is
    'of each lane the first ready jobs that have not been handed out';
grant execute on function deferred.__ready to deferred_worker, deferred_viewer;
