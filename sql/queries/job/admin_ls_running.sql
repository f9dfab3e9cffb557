-- admin_ls_running: jobs that workers hold, the longest held first. Some may wait in a worker for a
-- runner to be free.
-- params: queue text, fn text, rows_max int4
-- returns: id int8, queue text, fn text, label text, attempt int4, claimed_s int8, lease_s int8,
--   worker text, done int8?, total int8?, text text, reported_s int8?, json text
-- $1, $2 NULL: any
-- Rows: done, total, text, reported_s: progress, if the function reports any
-- Locks: none. Index: primary key of __deferred_hot, by the view deferred.__held; then job by job
--   as the view deferred.job (offset 0 has it looked up so)
select h.id, h.queue, h.fn, j.label, h.attempt, deferred.__age_s(h.started_at) as claimed_s,
       -deferred.__age_s(h.visible_at) as lease_s,
       format('%s (%s pid %s)', h.worker, h.host, h.pid) as worker,
       p.done, p.total, p.text,
       deferred.__age_s(p.reported_at) as reported_s,
       (select row_to_json(y)::text
        from (select h.id, j.state, h.queue, h.fn, j.label, j.key, h.priority, h.attempt,
                     j.created_at, h.started_at, h.visible_at, h.worker, h.host, h.pid, j.rule,
                     j.tags, deferred.__progress(p) as progress) y) as json
from (select x.id, x.queue, x.fn, x.priority, x.attempt, x.claimed_at as started_at,
      max(x.expires_at) as visible_at, x.worker, w.host, w.pid
      from deferred.__held x join deferred.__deferred_worker w on w.id = x.worker
      where ($1::text is null or x.queue = $1) and ($2::text is null or x.fn = $2)
      group by x.id, x.queue, x.fn, x.priority, x.attempt, x.claimed_at, x.worker, w.host, w.pid
      order by x.claimed_at, x.id limit $3::int4) h
cross join lateral (select * from deferred.job y where y.id = h.id offset 0) j
left join deferred.__deferred_progress p on p.job_id = h.id and p.attempt = h.attempt
order by h.started_at, h.id
