-- The progress of an attempt as a JSON object; NULL: its function does not report any.
create or replace function deferred.__progress(p deferred.__deferred_progress) returns json
language sql stable
as $$
    select row_to_json(x) from (select p.done, p.total, p.text, p.reported_at,
                                       extract(epoch from clock_timestamp() - p.reported_at)::float8
                                           as age_s
                                where p.job_id is not null) x
$$;
grant execute on function deferred.__progress to deferred_worker, deferred_viewer;
