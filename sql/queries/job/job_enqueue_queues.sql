-- job_enqueue_queues: add the queues that are not there yet, before jobs are stored by COPY.
-- params: queues text[]
-- returns: params_max_bytes int4, special bool
-- Rows: one for each queue, in the order of $1. Column limit: the largest params that the queue
--   takes, in bytes. Column special: the queue has settings that COPY ignores.
-- Locks: rows it adds.
-- Index: __deferred_queue_pkey.
with added as (
    insert into deferred.__deferred_queue (name)
    select n from unnest($1::text[]) n
    where not exists (select from deferred.__deferred_queue q where q.name = n collate "C")
    on conflict do nothing
    returning name, params_max_bytes, simple)
select coalesce(q.params_max_bytes, a.params_max_bytes, 1048576) as params_max_bytes,
       q.removed_at is not null or coalesce(q.max_running, q.rate, q.ttl_ms,
                                            q.max_length) is not null
           or not coalesce(a.simple, true) as special
from unnest($1::text[]) with ordinality as u(name, n)
left join deferred.__deferred_queue q on q.name = u.name collate "C"
left join added a on a.name = u.name collate "C"
order by u.n
