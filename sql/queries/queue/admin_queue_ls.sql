-- admin_queue_ls: queues and their settings.
-- params: queue text
-- returns: name text, paused bool, running int8?, max_running int4?, rate float8?, burst int4?,
--   max_length int4?, on_full text, visibility_timeout_ms int8?, ttl_ms int8?, max_attempts int4?,
--   weight float8?, fn text, json text, backoff_floor_ms int8?, backoff_ceiling_ms int8?,
--   backoff_exponent float8?, max_dequeue int4?, params_max_bytes int4?, metadata text?,
--   on_dead text?, paused_by text, paused_s int8?, paused_until text?, pattern text?,
--   age_ms int8?, key_rate float8?, key_burst int4?
-- $1 NULL: all
-- Rows: one for each queue. If running is NULL it was not counted, because there is no limit.
--   Column pattern: where its settings come from; NULL: they are its own
-- Locks: none. Index: primary keys of __deferred_queue, __deferred_limit and __deferred_hot
select q.name, deferred.__is_paused(q) as paused, r.running, q.max_running, q.rate, q.burst,
       q.max_length, q.on_full, q.visibility_timeout_ms, q.ttl_ms,
       q.max_attempts, q.weight, q.fn,
       json_build_object('queue', q.name, 'paused', deferred.__is_paused(q), 'paused_at',
                         q.paused_at, 'paused_by', q.paused_by, 'paused_until', q.paused_until,
                         'visibility_timeout_ms',
                         q.visibility_timeout_ms, 'ttl_ms', q.ttl_ms,
           'max_attempts', q.max_attempts, 'backoff_floor_ms', q.backoff_floor_ms,
           'backoff_ceiling_ms', q.backoff_ceiling_ms,
           'backoff_exponent', q.backoff_exponent, 'max_running', q.max_running, 'running',
           r.running, 'rate', q.rate, 'burst', q.burst,
           'max_length', q.max_length, 'on_full', q.on_full, 'fn', q.fn, 'max_dequeue',
           q.max_dequeue, 'metadata', q.metadata, 'weight', q.weight,
           'params_max_bytes', q.params_max_bytes, 'on_dead', o.fn, 'age_ms', q.age_ms,
           'key_rate', q.key_rate, 'key_burst', q.key_burst, 'pattern', q.pattern,
           'created_at', q.created_at)::text as json,
       q.backoff_floor_ms, q.backoff_ceiling_ms, q.backoff_exponent, q.max_dequeue,
       nullif(q.params_max_bytes, 1048576) as params_max_bytes, q.metadata::text, o.fn as on_dead,
       q.paused_by, deferred.__age_s(q.paused_at) as paused_s,
       to_char(q.paused_until, 'YYYY-MM-DD HH24:MI:SSOF') as paused_until, q.pattern, q.age_ms,
       q.key_rate, q.key_burst
from deferred.__deferred_queue q
left join deferred.__deferred_on_dead o on o.kind = 'queue' and o.name = q.name
-- Asked only where there is a limit, however many queues have none.
cross join lateral (
    select case when coalesce(q.max_running, q.rate) is not null then (
        select count(h.id)
        from deferred.__deferred_limit l cross join lateral unnest(l.running) i
        join deferred.__deferred_hot h on h.id = i
            and (h.worker is not null or (h.started_at is not null
                                          and h.visible_at > clock_timestamp()))
        where l.kind = 'queue' and l.queue = q.name and l.name = '') end as running
    offset 0) r
where ($1::text is null or q.name = $1) and q.removed_at is null
order by q.name
