-- web_job: one job, as a viewer sees it.
-- params: job int8, hidden_fns text[]
-- returns: id int8, state text, queue text, fn text, label text, priority int4, attempt int4,
--   created text, age_s int8, created_by text, visible text, visible_s int8, worker text,
--   finished text, last_outcome text, done int8?, total int8, text text, reported_s int8,
--   claimed_s int8?, json text
-- $2: their progress texts are left out, and those of jobs that the system deferred
-- Rows: at most one row. until_s: until visible. Progress is that of the attempt that runs
-- Locks: none. Index: primary keys of __deferred, __deferred_hot, __deferred_progress and
--   __deferred_worker, __deferred_log_job
select j.id, j.state, j.queue, j.fn, j.label, j.priority::int4, j.attempt,
       to_char(j.created_at, 'YYYY-MM-DD HH24:MI:SS') as created,
       deferred.__age_s(j.created_at) as age_s, j.created_by,
       to_char(j.visible_at, 'YYYY-MM-DD HH24:MI:SS') as visible,
       -deferred.__age_s(j.visible_at) as visible_s,
       (select format('%s on %s, pid %s', w.id, w.host, w.pid) from deferred.__deferred_worker w
        where w.id = j.worker) as worker,
       to_char(j.finished_at, 'YYYY-MM-DD HH24:MI:SS') as finished, j.last_outcome, p.done,
       p.total,
       case when cardinality($2::text[]) = 0 or (j.fn <> all ($2)
                                                 and j.created_by <> 'deferred_owner')
            then p.text end as text,
       deferred.__age_s(p.reported_at) as reported_s,
       deferred.__age_s(j.started_at) as claimed_s,
       row_to_json(j)::text as json
from deferred.__deferred d
cross join lateral (select * from deferred.job x where x.id = d.id offset 0) j
left join deferred.__deferred_progress p on p.job_id = d.id and p.attempt = j.attempt
    and j.state = 'claimed'
where d.id = $1::int8
