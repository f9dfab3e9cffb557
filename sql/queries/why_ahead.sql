-- why_ahead: how many jobs of its queue come before one that is ready. Those of its lane that are in front, and those of a higher priority; not those that workers hold.
-- $1 queue (text)   $2 priority (int4)   $3 its xid (text)   $4 its id (int8)   $5 counted so far (int8)
-- returns one row: jobs (int8)
-- locks: none. Index: __deferred_hot_ready; of leases all that live of the queue, and primary key of __deferred_hot for what they hold
select greatest(0, least($5::int8, (select count(*) from (
           (select 1 from deferred.__deferred_hot h
            where h.queue = $1::text and h.priority = $2::int4 and h.due_at is null and not h.limited and h.fn is not null and (h.xid, h.id) < ($3::text::xid8, $4::int8)
            order by h.queue, h.priority, h.xid, h.id limit $5)
           union all
           (select 1 from deferred.__deferred_hot h
            where h.queue = $1 and h.priority > $2 and h.due_at is null and not h.limited and h.fn is not null
            order by h.queue, h.priority, h.xid, h.id limit $5)) a)
       - (select count(*) from (
           select 1 from deferred.__deferred_lease l cross join lateral unnest(l.ids) i(id)
           join deferred.__deferred_hot h on h.id = any (array[i.id]) and pg_visible_in_snapshot(h.xid, l.snap)
           where l.queue = $1 and l.expires_at > clock_timestamp() and not h.limited and (h.priority > $2 or (h.priority = $2 and (h.xid, h.id) < ($3::text::xid8, $4)))
           limit $5) b)))
