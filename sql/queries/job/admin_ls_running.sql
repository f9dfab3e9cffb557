-- admin_ls_running: jobs that workers hold, the longest held first. Some may wait in a worker for a
-- runner to be free.
-- params: queue text, fn text, rows_max int4
-- returns: id int8, queue text, fn text, label text, attempt int4, claimed_s int8, lease_s int8,
--   worker text, done int8?, total int8?, text text, reported_s int8?, json text
-- $1 queue, $2 function; each NULL: any. $3 most rows.
-- rows: id, queue, fn, label, attempt, seconds since it was claimed, seconds until the lease ends,
--   worker, done, total, text, seconds since the function said that (NULL: it does not say how far
--   it is), the job as a JSON object.
-- locks: none. Index: primary key of __deferred_hot, by the view deferred.__held; then job by job
--   as the view deferred.job (offset 0 has it looked up so)
select h.id, h.queue, h.fn, j.label, h.attempt, extract(epoch
                                                        from clock_timestamp() -
                                                            h.started_at)::int8 as claimed_s,
       -deferred.__age_s(h.visible_at) as lease_s,
       format('%s (%s pid %s)', h.worker, h.host, h.pid) as worker,
       p.done, p.total, p.text,
       extract(epoch from clock_timestamp() - p.reported_at)::int8 as reported_s,
       json_build_object('id', h.id, 'state', j.state, 'queue', h.queue, 'fn', h.fn, 'label',
                         j.label, 'key', j.key,
           'priority', h.priority, 'attempt', h.attempt, 'created_at', j.created_at, 'started_at',
           h.started_at,
           'visible_at', h.visible_at, 'worker', h.worker, 'host', h.host, 'pid', h.pid, 'rule',
           j.rule, 'tags', j.tags,
           'progress', case when p.job_id is not null
                                then json_build_object('done', p.done, 'total', p.total, 'text',
                                                       p.text,
               'reported_at', p.reported_at, 'age_s',
               extract(epoch from clock_timestamp() - p.reported_at)::float8) end)::text as json
from (select x.id, x.queue, x.fn, x.priority, x.attempt, x.claimed_at as started_at,
      max(x.expires_at) as visible_at, x.worker, w.host, w.pid
      from deferred.__held x join deferred.__deferred_worker w on w.id = x.worker
      where ($1::text is null or x.queue = $1) and ($2::text is null or x.fn = $2)
      group by x.id, x.queue, x.fn, x.priority, x.attempt, x.claimed_at, x.worker, w.host, w.pid
      order by x.claimed_at, x.id limit $3::int4) h
cross join lateral (select * from deferred.job y where y.id = h.id offset 0) j
left join deferred.__deferred_progress p on p.job_id = h.id and p.attempt = h.attempt
order by h.started_at, h.id
