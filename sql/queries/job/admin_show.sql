-- admin_show: all there is to know of one job.
-- params: job int8
-- returns: id int8, state text, queue text, fn text, label text, priority int4, attempt int4,
--   created text, age_s int8, created_by text, visible text?, worker text, params text, json text,
--   done int8?, total int8?, text text, reported_s int8?, held_by text
-- Rows: no row if there is no such job, else one. Column json: the job with its attempts. Columns
--   done, total, text, reported_s: progress of the attempt, if its function reports any. Column
--   held_by: what holds a ready or delayed job back, as far as the database knows.
-- Locks: none. Index: primary keys of __deferred, __deferred_hot, __deferred_edge,
--   __deferred_progress, __deferred_step, __deferred_queue and __deferred_function,
--   __deferred_log_job, __deferred_awaited and __deferred_event, __deferred_edge_parent; all of
--   __deferred_offer.
select d.id, j.state, d.queue, d.fn, d.label, d.priority::int4, j.attempt,
       to_char(d.created_at, 'YYYY-MM-DD HH24:MI:SS TZH:TZM') as created,
       deferred.__age_s(d.created_at) as age_s,
       d.created_by::text, to_char(j.visible_at, 'YYYY-MM-DD HH24:MI:SS TZH:TZM') as visible,
       (select format('%s (%s pid %s)', w.id, w.host, w.pid) from deferred.__deferred_worker w
        where w.id = j.worker) as worker,
       d.params::text,
       (select row_to_json(x)::text
        from (select j.state, d.*, deferred.__key_state(d.id) as key_state, j.attempt,
                     j.visible_at, j.worker, j.finished_at,
                     case when h.nobody is not null then 'function'
                          when h.pause is not null then 'paused'
                          when h.limits is not null then 'limit' end as held_by,
                     deferred.__progress(p) as progress,
                     coalesce((
                         select json_agg(y order by y.finished_at, y.attempt)
                         from (select l.attempt, l.outcome, l.final, l.error, l.exit_code, l.signal,
                                      l.started_at, l.finished_at, l.worker, w.host, l.plugin,
                                      deferred.__measure(l.wait_us) as wait_us,
                                      deferred.__measure(l.run_us) as run_us,
                                      deferred.__measure(l.user_us) as user_us,
                                      deferred.__measure(l.sys_us) as sys_us,
                                      deferred.__measure(l.max_rss_kb) as max_rss_kb, l.result
                               from deferred.__deferred_log l
                               left join deferred.__deferred_worker w on w.id = l.worker
                               where l.job_id = d.id) y), '[]') as attempts,
                     coalesce((
                         select json_agg(y order by y.number)
                         from (select s.number, s.name, s.attempt, s.saved_at, s.value
                               from deferred.__deferred_step s
                               where s.job_id = d.id) y), '[]') as steps,
                     (select json_agg(y order by y.id)
                      from (select e.parent as id, e.name, deferred.__edge_on(e.kind) as on
                            from deferred.__deferred_edge e
                            where e.child = d.id and e.parent > 0
                            order by e.parent limit 1000) y) as parents,
                     (select json_agg(y)
                      from (select a.name as event, e.name, a.since, a.until,
                                   deferred.__on_timeout(a.on_timeout) as on_timeout, v.sent_at,
                                   v.sent_by, a.sent = 0 and e.what = 'f' as timed_out
                            from deferred.__deferred_awaited a
                            join deferred.__deferred_edge e on e.child = a.child
                                and e.parent = a.parent
                            left join deferred.__deferred_event v on v.id = a.sent
                            where a.child = d.id order by a.parent desc) y) as events,
                     (select json_agg(y.child order by y.child)
                      from (select e.child from deferred.__deferred_edge e where e.parent = d.id
                            order by e.child limit 1000) y) as children) x) as json,
       p.done, p.total, p.text, deferred.__age_s(p.reported_at) as reported_s,
       concat_ws('; ', h.nobody, h.pause, h.limits) as held_by
from deferred.__deferred d
cross join lateral (select * from deferred.job x where x.id = d.id offset 0) j
left join deferred.__deferred_progress p on p.job_id = d.id and p.attempt = j.attempt
    and j.state = 'claimed'
left join lateral (
    select case when u.host is not null then format('refused on %s: %s', u.host, u.why)
                else format('no worker offers function %s', d.fn) end as nobody
    from deferred.__unoffered(d.fn) u where u.unknown) u on j.state in ('ready', 'delayed')
left join lateral (
    select u.nobody,
           (select format('queue %s is paused', q.name) from deferred.__deferred_queue q
            where j.state = 'ready' and q.name = d.queue and deferred.__is_paused(q)) as pause,
           case when j.state = 'ready' and j.limited then
               'limits, where used up: ' || nullif(concat_ws(', ',
                   (select 'of queue ' || q.name from deferred.__deferred_queue q
                    where q.name = d.queue and coalesce(q.max_running, q.rate) is not null),
                   (select 'of function ' || f.name
                           || case when f.broken_at is not null
                              then ', paused by the breaker for its crashes' else '' end
                    from deferred.__deferred_function f where f.name = d.fn),
                   'of key ' || quote_literal(d.concurrency_key)), '') end as limits) h
    on true
where d.id = $1::int8
