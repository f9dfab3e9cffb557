-- admin_status_queues: how much lies in each queue; counts no further than $1 jobs of a queue.
-- $1 where counting stops (int8)
-- returns queue (text), paused (bool), ready, claimed, delayed (int8), counting of ready and claimed stopped (bool),
--   counting of delayed stopped (bool), seconds the longest waiting ready job among those counted has waited (int8, NULL: none),
--   it has limits (bool), all of it as a JSON object (text), who paused it (text), seconds since (int8; NULL: not known)
-- locks: none. Index: __deferred_hot_ready, __deferred_hot_limited and __deferred_hot_concurrency for a queue, __deferred_hot_delayed over all queues,
--   __deferred_hot_message: deferred.__depths()
select f.queue, f.paused, f.ready, f.claimed, f.delayed, f.ready_more, f.delayed_more, f.oldest_ready_s, f.limited, row_to_json(f)::text, f.paused_by,
       extract(epoch from clock_timestamp() - f.paused_at)::int8
from (select d.*, q.paused_by, q.paused_at from deferred.__depths($1::int8) d left join deferred.__deferred_queue q on q.name = d.queue offset 0) f
order by f.queue
