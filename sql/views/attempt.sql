-- What a viewer sees of every attempt: no results, no error texts.
create or replace view deferred.attempt as
    select l.job_id, l.attempt, d.queue, d.fn, l.plugin, l.outcome, l.final, l.exit_code, l.signal, l.started_at, l.finished_at, l.worker,
           l.wait_us, l.run_us, l.user_us, l.sys_us, l.max_rss_kb
    from deferred.__deferred_log l
    left join deferred.__deferred d on d.id = l.job_id;
comment on view deferred.attempt is 'every attempt with queue and function; without results and error texts';
grant select on deferred.attempt to deferred_worker, deferred_viewer;
