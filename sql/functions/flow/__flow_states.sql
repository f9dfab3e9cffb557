-- Reads by the primary key, of which the flow is one range. The index by job would lead through the
-- jobs of newer flows.
create or replace function deferred.__flow_states(p_flow bigint, p_most integer, out says text,
                                                  out counts json, out jobs bigint, out open text)
language sql stable set search_path = pg_catalog, pg_temp
as $$
    select concat(s.says, case when coalesce(f.jobs > p_most, s.jobs = p_most) then ', ...' end,
                  case o.open when 'open' then '; jobs may be added'
                       when 'closed' then '; ends with the last of its jobs' end),
           coalesce(s.counts, '{}'), coalesce(f.jobs, s.jobs, 0), o.open
    from (select sum(x.jobs) as jobs, string_agg(x.jobs || ' ' || x.state, ', '
                                                 order by x.state) as says,
                                                 json_object_agg(x.state, x.jobs
                                                     order by x.state) as counts
          from (select coalesce(j.state, 'purged') as state, count(*) as jobs
                from (select x.job from deferred.__deferred_member x
                      where x.flow between p_flow and p_flow order by x.flow, x.job limit p_most) m
                left join lateral (select x.state from deferred.job x where x.id = m.job offset 0) j
                    on true
                group by 1) x) s
    left join deferred.__deferred_flow f on f.id = p_flow
    left join lateral (select case when x.closed_at is null then 'open' else 'closed' end as open
                       from deferred.__deferred_flow_open x where x.flow = p_flow) o on true
$$;
comment on function deferred.__flow_states is
    'the states of a flow''s first jobs, as text and as an object, and the number of its jobs, if '
    'known. Jobs may be added to an open flow. A closed flow ends with the last of its jobs. '
    'NULL: it was deferred whole, or has ended.';
grant execute on function deferred.__flow_states to deferred_viewer;
