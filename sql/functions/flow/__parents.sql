-- Returns, by job, the JSON that a function gets about the parents of its job. NULL: the job waited
-- for none. The members are named by the parents' names, or by their ids. Each of the first 1,000
-- has the parent's id, its outcome as in deferred.parents(), and its result. An event has its name
-- instead of an id, and its payload as the result. Events come first. Parents after the first 64
-- KiB of results have "cut" instead. A call answers for the first jobs that have 1,000
-- parents together, and for at least one job. The caller asks again for the others.
create or replace function deferred.__parents(ids bigint[]) returns table (job bigint, parents text)
language sql stable security definer set search_path = pg_catalog, pg_temp
as $$
    with child as materialized (
        select c.job, c.i, sum(n.edges) over (order by c.i) as upto
        from unnest(ids) with ordinality c(job, i)
        cross join lateral (select count(*) as edges
                            from (select from deferred.__deferred_edge e where e.child = c.job
                                  limit 1000) x) n)
    select c.job, p.parents::text
    from child c
    cross join lateral (
        select jsonb_object_agg(s.name, s.said order by s.unnamed desc, s.parent desc) as parents
        from (
            select coalesce(e.name, e.parent::text) as name, e.name is null as unnamed, e.parent,
                   case when e.parent > 0 then jsonb_build_object('id', e.parent)
                        else jsonb_build_object('event', e.event) end ||
                   jsonb_build_object('outcome', e.outcome) ||
                       case when sum(octet_length(e.result)) over (order by e.parent) <= 65536
                                or e.result is null then jsonb_build_object('result', e.result)
                            else '{"cut": true}' end as said
            from (
                select x.name, x.parent, a.name as event,
                       case x.what when 'o' then 'ok' when 'f' then 'failed'
                                   when 's' then 'skipped' when 'n' then 'skipped' end as outcome,
                       case when x.parent > 0
                            then (select l.result from deferred.__deferred_log l
                                  where l.job_id = x.parent and l.final
                                  order by l.finished_at desc, l.attempt desc limit 1)
                            else (select v.payload::text from deferred.__deferred_event v
                                  where v.id = a.sent) end as result
                from deferred.__deferred_edge x
                left join deferred.__deferred_awaited a on a.child = x.child
                    and a.parent = x.parent
                where x.child = c.job order by x.parent limit 1000) e) s) p
    where c.upto <= 1000 or c.i = 1
    order by c.i
$$;
comment on function deferred.__parents is
    'how the jobs ended that some jobs waited for, as JSON for their functions';
grant execute on function deferred.__parents to deferred_worker, deferred_reader;
