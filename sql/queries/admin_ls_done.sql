-- admin_ls_done: jobs that ended well, newest first; looks at the newest 10,000 jobs only.
-- $1 queue (text), $2 function (text); each NULL: any. $3 state, always done (text), $4 most rows (int4)
-- returns the columns of admin_ls_hot; the seconds are those since the job ended, negative
-- locks: none. Index: __deferred_log_job, then for each job as the view deferred.job (offset 0 has it looked up job by job)
select j.id, j.state, j.queue, j.fn, j.label, j.priority::int4, j.attempt,
       extract(epoch from clock_timestamp() - j.created_at)::int8, extract(epoch from j.finished_at - clock_timestamp())::int8,
       j.last_outcome, row_to_json(j)::text, j.held_by
from (select x.job_id from deferred.__deferred_log x where x.final and x.outcome = 'ok' order by x.job_id desc limit 10000) l
cross join lateral (select x.*, null::text as held_by from deferred.job x where x.id = l.job_id offset 0) j
where j.state = $3::text and ($1::text is null or j.queue = $1) and ($2::text is null or j.fn = $2)
order by l.job_id desc limit $4::int4
