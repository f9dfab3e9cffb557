-- GET /v1/jobs/{id}: a job as the JSON API shows it. Error texts mention files and servers, so they
-- are for tokens with the right "read".
create or replace function deferred.__api_job(id bigint, with_error boolean) returns text
language sql stable set search_path = pg_catalog, pg_temp
as $$
    select row_to_json(x)::text
    from (select j.id, j.state, j.fn, j.queue, j.label, j.key, j.priority, j.attempt, j.created_at,
                 j.created_by, j.visible_at, j.started_at, j.finished_at, j.tags,
                 deferred.__progress(p) as progress, l.outcome, l.result,
                 case when $2 then l.error end as error
          from deferred.job j
          left join deferred.__deferred_progress p on p.job_id = j.id and p.attempt = j.attempt
              and j.worker is not null
          left join lateral (
              select y.outcome, y.error, case when j.finished_at is not null then y.result end
                                             as result
              from deferred.__deferred_log y where y.job_id = j.id
              order by y.finished_at desc, y.attempt desc limit 1) l on true
          where j.id = $1) x
$$;
