-- admin_show: all there is to know of one job.
-- params: job int8
-- returns: id int8, state text, queue text, fn text, label text, key text, priority int4,
--   attempt int4, created text, age_s int8, created_by text, run_at text, expires text,
--   visible text?, worker text, limits text, params text, json text, done int8?, total int8?,
--   text text, reported_s int8?, held_by text, rule text, tags text, traceparent text
-- rows: no row if there is no such job, else one: id, state, queue, fn, label, key, priority,
--   attempt, created, its age in seconds, created by, run at, expires, visible at, worker, limits,
--   params, the job with its attempts as a JSON object; of the attempt in progress, if its function
--   says how far it is: done, total, text, seconds since it said so (NULL: it does not); what holds
--   it back, that no worker has its function also while it is delayed (NULL: nothing, as far as the
--   database knows); the rule that made it; its tags, with commas between them; its trace context.
-- locks: none. Index: primary keys of __deferred, __deferred_hot, __deferred_edge,
--   __deferred_progress, __deferred_queue and __deferred_function, __deferred_log_job,
--   __deferred_edge_parent; all of __deferred_offer
select d.id, j.state, d.queue, d.fn, d.label, d.key, d.priority::int4, j.attempt,
       to_char(d.created_at, 'YYYY-MM-DD HH24:MI:SS TZH:TZM') as created,
       extract(epoch from clock_timestamp() - d.created_at)::int8 as age_s,
       d.created_by::text, to_char(d.run_at, 'YYYY-MM-DD HH24:MI:SS TZH:TZM') as run_at,
       to_char(d.expires_at, 'YYYY-MM-DD HH24:MI:SS TZH:TZM') as expires,
       to_char(j.visible_at, 'YYYY-MM-DD HH24:MI:SS TZH:TZM') as visible,
       (select format('%s (%s pid %s)', w.id, w.host, w.pid) from deferred.__deferred_worker w
        where w.id = j.worker) as worker,
       concat_ws(', ', 'attempts ' || d.max_attempts, 'timeout ' || d.timeout_ms || ' ms',
                 'back-off floor ' || d.backoff_floor_ms || ' ms',
                 'ceiling ' || d.backoff_ceiling_ms || ' ms',
                 'exponent ' || d.backoff_exponent,
                 coalesce(d.concurrency, 1) || ' at once with key ' ||
                     quote_literal(d.concurrency_key)) as limits,
       d.params::text,
       json_build_object('id', d.id, 'state', j.state, 'queue', d.queue, 'fn', d.fn, 'params',
                         d.params, 'label', d.label,
           'key', d.key, 'priority', d.priority, 'attempt', j.attempt, 'created_at', d.created_at,
           'created_by', d.created_by,
           'run_at', d.run_at, 'expires_at', d.expires_at, 'visible_at', j.visible_at, 'worker',
           j.worker,
           'finished_at', j.finished_at, 'max_attempts', d.max_attempts, 'timeout_ms', d.timeout_ms,
           'backoff_floor_ms', d.backoff_floor_ms, 'backoff_ceiling_ms', d.backoff_ceiling_ms,
           'backoff_exponent', d.backoff_exponent, 'concurrency_key', d.concurrency_key,
           'concurrency', d.concurrency, 'rule', d.rule, 'tags', d.tags, 'traceparent',
           d.traceparent,
           'held_by', case when h.nobody is not null then 'function'
                           when h.pause is not null then 'paused'
                               when h.limits is not null then 'limit' end,
           'progress', case when p.job_id is not null
                                then json_build_object('done', p.done, 'total', p.total, 'text',
                                                       p.text,
               'reported_at', p.reported_at, 'age_s',
               extract(epoch from clock_timestamp() - p.reported_at)::float8) end,
           'attempts', coalesce((
               select json_agg(json_build_object('attempt', l.attempt, 'outcome', l.outcome,
                                                 'final', l.final, 'error', l.error,
                          'exit_code', l.exit_code, 'signal', l.signal, 'started_at', l.started_at,
                          'finished_at', l.finished_at,
                          'worker', l.worker, 'host', w.host, 'plugin', l.plugin, 'wait_us',
                          deferred.__measure(l.wait_us), 'run_us', deferred.__measure(l.run_us),
                          'user_us', deferred.__measure(l.user_us), 'sys_us',
                          deferred.__measure(l.sys_us), 'max_rss_kb',
                          deferred.__measure(l.max_rss_kb), 'result', l.result)
                          order by l.finished_at, l.attempt)
               from deferred.__deferred_log l
               left join deferred.__deferred_worker w on w.id = l.worker
               where l.job_id = d.id), '[]'),
           'parents', (select json_agg(json_build_object('id', e.parent, 'name', e.name,
                              'on', deferred.__edge_on(e.kind)) order by e.parent)
                       from (select * from deferred.__deferred_edge x where x.child = d.id
                             order by x.parent limit 1000) e),
           'children', (select json_agg(e.child order by e.child)
                        from (select * from deferred.__deferred_edge x where x.parent = d.id
                              order by x.child limit 1000) e))::text as json,
       p.done, p.total, p.text,
       extract(epoch from clock_timestamp() - p.reported_at)::int8 as reported_s,
       concat_ws('; ', h.nobody, h.pause, h.limits) as held_by, d.rule,
       array_to_string(d.tags, ', ') as tags, d.traceparent
from deferred.__deferred d
cross join lateral (select * from deferred.job x where x.id = d.id offset 0) j
left join deferred.__deferred_progress p on p.job_id = d.id and p.attempt = j.attempt
    and j.state = 'claimed'
left join lateral (
    select case when d.fn not in (select o.fn from deferred.__offered o)
                    and exists (select from deferred.__deferred_offer)
                then coalesce((select format('refused on %s: %s', o.host, f.plugin)
                               from deferred.__deferred_offer o
                               cross join lateral unnest(o.fn, o.plugin, o.max_attempts) f(fn,
                                   plugin, max_attempts)
                               where f.fn = d.fn and f.max_attempts < 0 order by o.seen_at desc
                               limit 1),
                              format('no worker has function %s', d.fn)) end as nobody,
           case when j.state = 'ready' then (
               select format('queue %s is paused', q.name) from deferred.__deferred_queue q
               where q.name = d.queue and deferred.__is_paused(q)) end as pause,
           case when j.state = 'ready' and j.limited then (
               select 'limits, where used up: ' || nullif(concat_ws(', ',
                   (select 'of queue ' || q.name from deferred.__deferred_queue q
                    where q.name = d.queue and coalesce(q.max_running, q.rate) is not null),
                   (select 'of function ' || f.name || case
                       when f.broken_at is not null then ', paused by the breaker for its crashes'
                           else '' end
                    from deferred.__deferred_function f where f.name = d.fn),
                   'of key ' || quote_literal(d.concurrency_key)), '')) end as limits) h
                       on j.state in ('ready', 'delayed')
where d.id = $1::int8
