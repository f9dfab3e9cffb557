-- web_job: one job, as a viewer sees it.
-- $1 job id (int8), $2 functions whose progress texts are left out, and with them those of jobs
--   that the system deferred (text[])
-- returns no row if there is no such job, else one: id (int8), state, queue, fn, label, key (text), priority (int4), attempts (int4), deferred (text),
--   seconds since (int8), by (text), not before, expires (text), due, ready since, or end of its lease (text), seconds until then (int8), worker (text),
--   ended (text), last outcome (text), most attempts (int4), time limit in milliseconds (int8), concurrency key (text), rule (text),
--   of the attempt in progress: done, total (int8), text, seconds since it said so (int8), seconds since it was claimed (int8); trace context (text); the whole as a JSON object
-- locks: none. Index: primary keys of __deferred, __deferred_hot, __deferred_progress and __deferred_worker, __deferred_log_job
select j.id, j.state, j.queue, j.fn, j.label, j.key, j.priority::int4, j.attempt, to_char(j.created_at, 'YYYY-MM-DD HH24:MI:SS'),
       extract(epoch from clock_timestamp() - j.created_at)::int8, j.created_by, to_char(d.run_at, 'YYYY-MM-DD HH24:MI:SS'),
       to_char(d.expires_at, 'YYYY-MM-DD HH24:MI:SS'), to_char(j.visible_at, 'YYYY-MM-DD HH24:MI:SS'),
       -deferred.__age_s(j.visible_at),
       (select format('%s on %s, pid %s', w.id, w.host, w.pid) from deferred.__deferred_worker w where w.id = j.worker),
       to_char(j.finished_at, 'YYYY-MM-DD HH24:MI:SS'), j.last_outcome, d.max_attempts, d.timeout_ms, j.concurrency_key, j.rule,
       p.done, p.total,
       case when cardinality($2::text[]) = 0 or (j.fn <> all ($2) and j.created_by <> 'deferred_owner')
            then p.text end,
       extract(epoch from clock_timestamp() - p.reported_at)::int8,
       extract(epoch from clock_timestamp() - j.started_at)::int8,
       d.traceparent, row_to_json(j)::text
from deferred.__deferred d
cross join lateral (select * from deferred.job x where x.id = d.id offset 0) j
left join deferred.__deferred_progress p on p.job_id = d.id and p.attempt = j.attempt and j.state = 'claimed'
where d.id = $1::int8
