-- By the key of the table, for which the flow is a range of one: along the index of jobs those of newer flows would be walked over.
create or replace function deferred.__flow_states(p_flow bigint, p_most integer, out says text, out counts json)
language sql stable set search_path = pg_catalog, pg_temp
as $$
    select string_agg(s.jobs || ' ' || s.state, ', ' order by s.state), coalesce(json_object_agg(s.state, s.jobs order by s.state), '{}')
    from (select coalesce(j.state, 'purged') as state, count(*) as jobs
          from (select x.job from deferred.__deferred_member x where x.flow between p_flow and p_flow order by x.flow, x.job limit p_most) m
          left join lateral (select x.state from deferred.job x where x.id = m.job offset 0) j on true
          group by 1) s
$$;
comment on function deferred.__flow_states is 'how many of the first jobs of a flow are in which state, for people and as an object';
grant execute on function deferred.__flow_states to deferred_viewer;
