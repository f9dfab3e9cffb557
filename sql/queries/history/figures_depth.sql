-- figures_depth: samples of how much lay in the queues.
-- params: queue text, from_s int8
-- returns: at int8, queue text, ready int8, delayed int8, claimed int8, more bool, oldest_s int8?,
--   paused bool
-- $1 NULL: all. $2 0: the newest of each queue
-- Rows: by time and queue. at: in seconds since 1970. more: counting stopped
-- Locks: none. Index: __deferred_depth_pkey
select extract(epoch from x.at)::int8 as at, x.queue, x.ready, x.delayed, x.claimed, x.more,
       x.oldest_s, x.paused
from deferred.__deferred_queue q
cross join lateral (
    select d.* from deferred.__deferred_depth d
    where d.queue = q.name and d.at >= now() - case when $2::int8 = 0 then interval '8 days'
                                                    else $2 * interval '1 second' end
    order by d.at desc limit case when $2 = 0 then 1 end) x
where $1::text is null or q.name = $1
order by x.at, x.queue
