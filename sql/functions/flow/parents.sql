create or replace function deferred.parents(job_id bigint, out name text, out parent bigint,
                                            out "on" text, out outcome text, out result text)
returns setof record
language sql stable security definer set search_path = pg_catalog, pg_temp
as $$
    select e.name, case when e.parent > 0 then e.parent end, deferred.__edge_on(e.kind),
           case e.what when 'o' then 'ok' when 'f' then 'failed' when 's' then 'skipped'
                when 'n' then 'skipped' end,
           case when e.parent > 0
                then (select l.result from deferred.__deferred_log l
                      where l.job_id = e.parent and l.final
                      order by l.finished_at desc, l.attempt desc limit 1)
                else (select v.payload::text from deferred.__deferred_awaited a
                      join deferred.__deferred_event v on v.id = a.sent
                      where a.child = e.child and a.parent = e.parent) end
    from deferred.__deferred_edge e join deferred.__deferred d on d.id = e.child
    where e.child = $1 and deferred.__may_touch(d.created_by::name)
    order by e.parent limit 1000
$$;
comment on function deferred.parents(bigint) is
    'the parents of a job: their names, outcomes and results. An outcome of NULL: the parent has '
    'not ended. A parent of NULL is an event, with its payload as the result.';
grant execute on function deferred.parents(bigint) to deferred_producer;
