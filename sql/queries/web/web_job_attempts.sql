-- web_job_attempts: the newest attempts made at one job, newest first, without what they said.
-- params: job int8
-- returns: attempt int4, outcome text, final bool, started text, finished text, wait_us int8?,
--   run_us int8?, cpu_us int8?, max_rss_kb int8?, exit_code int4?, signal int4?, worker text,
--   plugin text
-- Rows: at most 200
-- Locks: none. Index: __deferred_log_job, primary key of __deferred_worker
select l.attempt, l.outcome, l.final, to_char(l.started_at, 'YYYY-MM-DD HH24:MI:SS') as started,
       to_char(l.finished_at, 'YYYY-MM-DD HH24:MI:SS') as finished,
       deferred.__measure(l.wait_us) as wait_us, deferred.__measure(l.run_us) as run_us,
       deferred.__measure(l.user_us) + deferred.__measure(l.sys_us) as cpu_us,
       deferred.__measure(l.max_rss_kb) as max_rss_kb, l.exit_code, l.signal,
       concat_ws(' on ', l.worker, w.host) as worker, l.plugin
from (select x.job_id, x.attempt, x.outcome, x.final, x.started_at, x.finished_at, x.wait_us,
      x.run_us, x.user_us, x.sys_us, x.max_rss_kb, x.exit_code,
             x.signal, x.worker, x.plugin
      from deferred.__deferred_log x where x.job_id = $1::int8
      order by x.finished_at desc, x.attempt desc limit 200) l
left join deferred.__deferred_worker w on w.id = l.worker
order by l.finished_at desc, l.attempt desc
