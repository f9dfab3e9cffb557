-- admin_show_attempts: the attempts made at one job, in order.
-- $1 job id (int8)
-- returns attempt (int4), outcome (text), final (bool), exit code (int4), signal (int4), started (text), waited, ran, CPU time
--   user and system in microseconds (int8 each), largest memory in KiB (int8), worker (text), plugin, error, result (text)
-- locks: none. Index: __deferred_log_job
select l.attempt, l.outcome, l.final, l.exit_code, l.signal, to_char(coalesce(l.started_at, l.finished_at), 'YYYY-MM-DD HH24:MI:SS'),
       deferred.__measure(l.wait_us), deferred.__measure(l.run_us), deferred.__measure(l.user_us), deferred.__measure(l.sys_us), deferred.__measure(l.max_rss_kb), concat_ws(' ', l.worker, w.host), l.plugin, l.error, l.result
from deferred.__deferred_log l left join deferred.__deferred_worker w on w.id = l.worker
where l.job_id = $1::int8
order by l.finished_at, l.attempt
