-- The jobs that the acting role deferred, as a producer sees them. The columns are those of
-- deferred.job, the progress of the attempt, and the result of a function that is done. Error texts
-- are left out: they are for operators, and mention files and servers.
--
-- security_barrier: conditions of a query apply to rows of that role only, except conditions that
-- cannot leak, such as id = 17. The functions in here run with the rights, and on the search_path,
-- of the caller.
create or replace view deferred.my_job with (security_barrier) as
    select j.id, j.queue, j.fn, j.label, j.key, j.priority, j.created_at, j.state, j.attempt,
           j.visible_at, j.started_at, j.finished_at, j.last_outcome,
           p.done as progress_done, p.total as progress_total, p.text as progress_text,
           p.reported_at as progress_at,
           case when j.finished_at is not null then (
               select l.result from deferred.__deferred_log l where l.job_id = j.id and l.final
               order by l.finished_at desc, l.attempt desc limit 1) end as result,
           j.rule, j.tags, j.traceparent
    from deferred.job j
    left join deferred.__deferred_progress p on p.job_id = j.id and p.attempt = j.attempt
        and j.worker is not null
    where j.created_by = (select deferred.__actor()::text);
comment on view deferred.my_job is 'the jobs that who asks deferred: state, progress, result';
grant select on deferred.my_job to deferred_producer;
