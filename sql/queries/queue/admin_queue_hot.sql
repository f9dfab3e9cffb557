-- admin_queue_hot: does a queue exist, and how much lies in it?
-- params: queue text, count_max int8
-- returns: exists bool, hot int8, last_id int8?
-- Rows: one row: it exists, hot jobs of it, largest id of a hot job of any queue (NULL: none).
-- Locks: none. Index: __deferred_hot_message, __deferred_hot_ready, __deferred_hot_limited,
--   __deferred_hot_concurrency, __deferred_hot_delayed
select exists (select from deferred.__deferred_queue q where q.name = $1::text
               and q.removed_at is null),
       (select count(*) from (
            select from deferred.__deferred_hot h where h.queue = $1 and h.fn is null
            union all
            select from deferred.__deferred_hot h where h.queue = $1
                and deferred.__in_lane(h.due_at, h.limited, h.fn)
            union all
            select from deferred.__deferred_hot h
            where h.queue = $1 and h.due_at is null and h.limited and h.concurrency_key is null
              and h.unknown in (false, true) and h.fn is not null
            union all
            select from deferred.__deferred_hot h where h.queue = $1 and h.due_at is null
                and h.concurrency_key is not null and h.fn is not null
            union all
            select from deferred.__deferred_hot h where h.due_at is not null and h.queue = $1
                and h.fn is not null
            limit $2::int8) x) as hot,
       (select max(h.id) from deferred.__deferred_hot h) as last_id
