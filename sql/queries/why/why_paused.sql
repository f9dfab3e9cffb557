-- why_paused: who paused a queue, and how much waits in it.
-- params: queue text, counted_max int8
-- returns: ready int8, paused_by text?, paused_s int8?
-- Rows: one row if the queue is there. ready: jobs that are ready, counted up to $2.
-- Locks: none. Index: primary key of __deferred_queue; __deferred_hot_ready and its neighbours
-- The order of an index keeps the planner from reading the table.
select (select count(*) from (
            (select from deferred.__deferred_hot x where x.queue = q.name
                 and deferred.__in_lane(x.due_at, x.limited, x.fn)
             order by x.queue, x.priority, x.xid, x.id)
            union all
            (select from deferred.__deferred_hot x where x.queue = q.name and x.due_at is null
                 and x.limited and x.concurrency_key is null and x.unknown in (false, true)
             order by x.unknown, x.queue, x.fn, x.priority desc, x.id)
            union all
            (select from deferred.__deferred_hot x where x.queue = q.name and x.due_at is null
                 and x.concurrency_key is not null and x.fn is not null
             order by x.queue, hashtextextended(x.concurrency_key, 0), x.id)
            union all
            (select from deferred.__deferred_hot x where x.queue = q.name and x.due_at is null
                 and x.fn is null order by x.queue, x.due_at nulls first, x.priority desc)
            limit $2::int8) n) as ready,
       q.paused_by, deferred.__age_s(q.paused_at) as paused_s
from deferred.__deferred_queue q where q.name = $1::text
