-- flow_show: the jobs of a flow, or around a job, and what waits for what among them.
-- $1 flow or job (int8), $2 how many at most (int4)
-- returns of each: id (int8), name in the flow (text), function, state, label (text), what it waits for among these, 20 at most (text),
--   the same as JSON: a list of objects with id and on (text); label of the flow (text), how many jobs it has (int4; NULL: it is none), all of it as a JSON object (text);
--   what is to be done where one fails, what came of that, and of the last retry (text; NULL: nothing)
-- locks: none. Index: primary keys of __deferred_flow, __deferred_member, __deferred_flow_retry_flow, __deferred_edge, __deferred and __deferred_hot, __deferred_member_job,
--   __deferred_edge_parent, __deferred_log_job
select n.id, coalesce(m.name, ''), coalesce(j.fn, ''), coalesce(j.state, 'purged'), coalesce(j.label, ''), coalesce(e.says, ''), coalesce(e.list, '[]')::text,
       coalesce(f.label, ''), f.jobs,
       json_build_object('id', n.id, 'name', m.name, 'fn', j.fn, 'state', j.state, 'label', j.label, 'after', coalesce(e.list, '[]'))::text,
       case when f.on_failure = 'cancel' then 'where one fails, the rest is cancelled' || coalesce(format(': job %s failed first', f.failed), '') end,
       r.says
from (select $1::int8 as what, u.id, all_of.ids from (select deferred.__flow_nodes($1::int8, $2::int4) as ids) all_of cross join lateral unnest(all_of.ids) u(id)) n
left join deferred.__deferred_member m on m.job = n.id
left join deferred.__deferred_flow f on f.id = m.flow
left join lateral (
    select case when x.ended_at is null then format('being begun again since %s, by %s: up to job %s', to_char(x.requested_at, 'YYYY-MM-DD HH24:MI:SS TZH:TZM'), x.requested_by, x.after)
                else format('begun again at %s, by %s', to_char(x.ended_at, 'YYYY-MM-DD HH24:MI:SS TZH:TZM'), x.requested_by) end
           || format(': %s ready, %s waiting', x.ready, x.waiting)
           || case when x.refused > 0 then format(', %s refused, the first: %s', x.refused, x.why) else '' end as says
    from deferred.__deferred_flow_retry x where x.flow = f.id order by x.n desc limit 1) r on true
left join lateral (select x.fn, x.state, x.label from deferred.job x where x.id = n.id offset 0) j on true
left join lateral (
    select string_agg(p.parent || case deferred.__edge_on(p.kind) when 'ok' then '' else ' (' || deferred.__edge_on(p.kind) || ')' end, ', ' order by p.parent) filter (where p.i <= 20)
               || case when count(*) > 20 then ', ...' else '' end as says,
           json_agg(json_build_object('id', p.parent, 'on', deferred.__edge_on(p.kind)) order by p.parent) as list
    from (select x.*, row_number() over (order by x.parent) as i
          from deferred.__deferred_edge x where x.child = n.id and x.parent = any (n.ids) order by x.parent limit 1000) p) e on true
order by n.id
