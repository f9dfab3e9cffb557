-- figures_depth: samples of how much lay in the queues.
-- $1 queue, NULL: all (text)   $2 of so many seconds before now, 0: the newest of each queue (int8)
-- returns seconds since 1970 (int8), queue (text), ready, delayed, claimed (int8), counting stopped (bool), seconds the longest waiting had been ready (int8;
--   NULL: none was), the queue was paused (bool); by time and queue
-- locks: none. Index: __deferred_depth_pkey
select extract(epoch from x.at)::int8, x.queue, x.ready, x.delayed, x.claimed, x.more, x.oldest_s, x.paused
from deferred.__deferred_queue q
cross join lateral (
    select d.* from deferred.__deferred_depth d
    where d.queue = q.name and d.at >= now() - case when $2::int8 = 0 then interval '8 days' else $2 * interval '1 second' end
    order by d.at desc limit case when $2 = 0 then 1 end) x
where $1::text is null or q.name = $1
order by x.at, x.queue
