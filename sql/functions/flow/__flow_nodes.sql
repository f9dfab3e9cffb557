-- For a flow, returns its first jobs. For a job of a flow, returns the jobs of that flow. For any
-- other job, returns its parents and children, then theirs, and so on, the nearest first. The
-- parameter `most` limits the jobs, and the edges that are read of each job. The jobs returned have
-- ids above `after`.
create or replace function deferred.__flow_nodes(what bigint, most integer,
                                                 after bigint default 0) returns bigint[]
language plpgsql stable set search_path = pg_catalog, pg_temp
as $$
declare
    v_flow bigint;
    v_all  bigint[] := array[what];
    v_new  bigint[] := array[what];
begin
    select coalesce((select f.id from deferred.__deferred_flow f where f.id = what),
                    (select m.flow from deferred.__deferred_member m
                     where m.job = what)) into v_flow;
    if v_flow is not null then
        return array(select m.job from deferred.__deferred_member m
                     where m.flow between v_flow and v_flow and m.job > after order by m.flow, m.job
                     limit most);
    end if;
    if not exists (select from deferred.job d where d.id = what) then
        return '{}';
    end if;
    while v_new <> '{}' and cardinality(v_all) < most loop
        v_new := array(select distinct e.id from unnest(v_new) n(id)
                       cross join lateral ((select x.parent as id from deferred.__deferred_edge x
                                            where x.child = n.id and x.parent > 0
                                            order by x.parent limit most)
                                           union all (select x.child from deferred.__deferred_edge x
                                                      where x.parent = n.id order by x.child
                                                      limit most)) e
                       where e.id <> all (v_all) order by e.id limit most - cardinality(v_all));
        v_all := v_all || v_new;
    end loop;
    return array(select n from unnest(v_all) n where n > after order by n);
end
$$;
comment on function deferred.__flow_nodes is 'jobs of a flow, or around a job, in order of id';
grant execute on function deferred.__flow_nodes to deferred_viewer;
