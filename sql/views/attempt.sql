-- What a viewer sees of every attempt: no results, no error texts.
create or replace view deferred.attempt as
    select l.job_id, l.attempt, d.queue, d.fn, l.plugin, l.outcome, l.final, l.exit_code, l.signal, l.started_at, l.finished_at, l.worker,
           l.wait_us::bigint, l.run_us::bigint, l.user_us::bigint, l.sys_us::bigint, l.max_rss_kb::bigint
    from deferred.__deferred_log l
    left join deferred.__deferred d on d.id = l.job_id;
comment on view deferred.attempt is 'every attempt with queue and function; without results and error texts';
grant select on deferred.attempt to deferred_worker, deferred_viewer;
