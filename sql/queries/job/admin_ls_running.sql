-- admin_ls_running: jobs that workers hold, the longest held first. Some may wait in a worker for a runner to be free.
-- $1 queue (text), $2 function (text); each NULL: any. $3 most rows (int4)
-- returns id (int8), queue, fn, label (text), attempt (int4), seconds since it was claimed (int8), seconds until the lease ends
--   (int8), worker (text), done, total (int8), text, seconds since the function said that (int8; NULL: it does not say how far it
--   is), the job as a JSON object (text)
-- locks: none. Index: primary key of __deferred_hot, by the view deferred.__held; then job by job
--   as the view deferred.job (offset 0 has it looked up so)
select h.id, h.queue, h.fn, j.label, h.attempt, extract(epoch from clock_timestamp() - h.started_at)::int8,
       -deferred.__age_s(h.visible_at), format('%s (%s pid %s)', h.worker, h.host, h.pid),
       p.done, p.total, p.text, extract(epoch from clock_timestamp() - p.reported_at)::int8,
       json_build_object('id', h.id, 'state', j.state, 'queue', h.queue, 'fn', h.fn, 'label', j.label, 'key', j.key,
           'priority', h.priority, 'attempt', h.attempt, 'created_at', j.created_at, 'started_at', h.started_at,
           'visible_at', h.visible_at, 'worker', h.worker, 'host', h.host, 'pid', h.pid, 'rule', j.rule, 'tags', j.tags,
           'progress', case when p.job_id is not null then json_build_object('done', p.done, 'total', p.total, 'text', p.text,
               'reported_at', p.reported_at, 'age_s', extract(epoch from clock_timestamp() - p.reported_at)::float8) end)::text
from (select x.id, x.queue, x.fn, x.priority, x.attempt, x.claimed_at as started_at, max(x.expires_at) as visible_at, x.worker, w.host, w.pid
      from deferred.__held x join deferred.__deferred_worker w on w.id = x.worker
      where ($1::text is null or x.queue = $1) and ($2::text is null or x.fn = $2)
      group by x.id, x.queue, x.fn, x.priority, x.attempt, x.claimed_at, x.worker, w.host, w.pid
      order by x.claimed_at, x.id limit $3::int4) h
cross join lateral (select * from deferred.job y where y.id = h.id offset 0) j
left join deferred.__deferred_progress p on p.job_id = h.id and p.attempt = h.attempt
order by h.started_at, h.id
