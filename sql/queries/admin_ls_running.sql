-- admin_ls_running: jobs that workers hold, the longest held first. Some may wait in a worker for a runner to be free.
-- $1 queue (text), $2 function (text); each NULL: any. $3 most rows (int4)
-- returns id (int8), queue, fn, label (text), attempt (int4), seconds since it was claimed (int8), seconds until the lease ends
--   (int8), worker (text), done, total (int8), text, seconds since the function said that (int8; NULL: it does not say how far it
--   is), the job as a JSON object (text)
-- locks: none. Index: __deferred_worker_alive, whose rows name the jobs they may hold; primary key of __deferred_hot; then job by job
--   as the view deferred.job (offset 0 has it looked up so)
select h.id, h.queue, h.fn, j.label, h.attempt, extract(epoch from clock_timestamp() - h.started_at)::int8,
       extract(epoch from h.visible_at - clock_timestamp())::int8, format('%s (%s pid %s)', h.worker, h.host, h.pid),
       p.done, p.total, p.text, extract(epoch from clock_timestamp() - p.reported_at)::int8,
       json_build_object('id', h.id, 'state', j.state, 'queue', h.queue, 'fn', h.fn, 'label', j.label, 'key', j.key,
           'priority', h.priority, 'attempt', h.attempt, 'created_at', j.created_at, 'started_at', h.started_at,
           'visible_at', h.visible_at, 'worker', h.worker, 'host', h.host, 'pid', h.pid,
           'progress', case when p.job_id is not null then json_build_object('done', p.done, 'total', p.total, 'text', p.text,
               'reported_at', p.reported_at, 'age_s', extract(epoch from clock_timestamp() - p.reported_at)::float8) end)::text
from (select x.id, x.queue, x.fn, x.priority, x.attempt, x.started_at, x.visible_at, x.worker, w.host, w.pid
      from deferred.__deferred_worker w
      cross join lateral (select distinct i.id from unnest(w.held) as i(id)) i
      join deferred.__deferred_hot x on x.id = i.id and x.worker = w.id and x.visible_at > clock_timestamp()
      where w.ended_at is null and ($1::text is null or x.queue = $1) and ($2::text is null or x.fn = $2)
      order by x.started_at, x.id limit $3::int4) h
cross join lateral (select * from deferred.job y where y.id = h.id offset 0) j
left join deferred.__deferred_progress p on p.job_id = h.id and p.attempt = h.attempt
order by h.started_at, h.id
