-- Every attempt as a viewer sees it: without results and error texts.
create or replace view deferred.attempt as
    select l.job_id, l.attempt, d.queue, d.fn, l.plugin, l.outcome, l.final, l.exit_code, l.signal,
           l.started_at, l.finished_at, l.worker,
           deferred.__measure(l.wait_us) as wait_us, deferred.__measure(l.run_us) as run_us,
           deferred.__measure(l.user_us) as user_us, deferred.__measure(l.sys_us) as sys_us,
           deferred.__measure(l.max_rss_kb) as max_rss_kb
    from deferred.__deferred_log l
    left join deferred.__deferred d on d.id = l.job_id;
comment on view deferred.attempt is
    'every attempt with queue and function; without results and error texts';
grant select on deferred.attempt to deferred_worker, deferred_viewer;
