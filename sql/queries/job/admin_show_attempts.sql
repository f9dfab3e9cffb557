-- admin_show_attempts: the attempts made at one job, in order.
-- params: job int8
-- returns: attempt int4, outcome text, final bool, exit_code int4?, signal int4?, started text,
--   wait_us int8?, run_us int8?, user_us int8?, sys_us int8?, max_rss_kb int8?, worker text,
--   plugin text, error text, result text
-- Locks: none. Index: __deferred_log_job
select l.attempt, l.outcome, l.final, l.exit_code, l.signal,
       to_char(coalesce(l.started_at, l.finished_at), 'YYYY-MM-DD HH24:MI:SS') as started,
       deferred.__measure(l.wait_us) as wait_us, deferred.__measure(l.run_us) as run_us,
       deferred.__measure(l.user_us) as user_us, deferred.__measure(l.sys_us) as sys_us,
       deferred.__measure(l.max_rss_kb) as max_rss_kb, concat_ws(' ', l.worker, w.host) as worker,
       l.plugin, l.error, l.result
from deferred.__deferred_log l left join deferred.__deferred_worker w on w.id = l.worker
where l.job_id = $1::int8
order by l.finished_at, l.attempt
