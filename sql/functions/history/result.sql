create or replace function deferred.result(id bigint, out state text, out result text,
                                           out outcome text, out finished_at timestamptz)
language sql stable security definer set search_path = pg_catalog, pg_temp
as $$
    select j.state, l.result, l.outcome, j.finished_at
    from (select x.* from deferred.job x where x.id = $1 offset 0) j
    left join lateral (
        select y.result, y.outcome from deferred.__deferred_log y
        where y.job_id = j.id and y.final and j.finished_at is not null
        order by y.finished_at desc, y.attempt desc limit 1) l on true
    where deferred.__may_touch(j.created_by::name)
$$;
comment on function deferred.result(bigint) is
    'state of a job; once it has ended, also the result, the outcome of its last attempt and the '
    'time of its end. All columns are NULL if there is no such job or another role deferred it';
grant execute on function deferred.result(bigint) to deferred_producer;
