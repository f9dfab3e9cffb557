-- admin_status_queues: how much lies in each queue; counts no further than $1 jobs of a queue.
-- params: count_max int8
-- returns: queue text, paused bool, ready int8, claimed int8, delayed int8, ready_more bool,
--   delayed_more bool, oldest_ready_s int8?, limited bool, json text, paused_by text?,
--   paused_s int8?
-- Rows: one for each queue. ready_more: counting of ready and claimed stopped. oldest_ready_s: age
--   of the oldest ready job that was counted
-- Locks: none. Index: __deferred_hot_ready, __deferred_hot_limited and __deferred_hot_concurrency
--   for a queue, __deferred_hot_delayed over all queues, __deferred_hot_message:
--   deferred.__depths()
select f.queue, f.paused, f.ready, f.claimed, f.delayed, f.ready_more, f.delayed_more,
       f.oldest_ready_s, f.limited, row_to_json(f)::text as json, f.paused_by,
       deferred.__age_s(f.paused_at) as paused_s
from (select d.*, q.paused_by, q.paused_at from deferred.__depths($1::int8) d
      left join deferred.__deferred_queue q on q.name = d.queue offset 0) f
order by f.queue
