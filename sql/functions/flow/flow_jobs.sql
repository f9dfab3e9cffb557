create or replace function deferred.flow_jobs(flow bigint, out name text, out id bigint,
                                              out state text) returns setof record
language sql stable security definer set search_path = pg_catalog, pg_temp
as $$
    select m.name, m.job, j.state
    from deferred.__deferred_member m
    join deferred.__deferred_flow f on f.id = m.flow
    left join lateral (select x.state from deferred.job x where x.id = m.job offset 0) j on true
    where m.flow = $1 and deferred.__may_touch(f.created_by)
    order by m.job
$$;
comment on function deferred.flow_jobs(bigint) is
    'the jobs of a flow by their names, in the order they were given in, callbacks last; state '
    'NULL: purged';
grant execute on function deferred.flow_jobs(bigint) to deferred_producer;
