-- flow_show: the jobs of a flow, or around a job, and what they wait for.
-- params: flow int8, jobs_max int4, after int8
-- returns: id int8, name text, fn text, state text, label text, waits_for text,
--   waits_for_json text, json text, last_outcome text?
-- $3 0: from the first
-- Rows: the parents are at most 20, in the JSON object 1,000
-- Locks: none. Index: primary keys of __deferred_flow (deferred.__flow_nodes()), __deferred_member,
--   __deferred_edge, __deferred_awaited, __deferred and __deferred_hot, __deferred_member_job,
--   __deferred_edge_parent, __deferred_log_job
select n.id, coalesce(m.name, '') as name,
       coalesce(j.fn, case when j.state is not null then 'message' end, '') as fn,
       coalesce(j.state, 'purged') as state, coalesce(j.label, '') as label,
       coalesce(e.says, '') as waits_for, coalesce(e.list, '[]')::text as waits_for_json,
       json_build_object('id', n.id, 'name', m.name, 'fn', j.fn, 'state', j.state, 'label', j.label,
                         'last_outcome', j.last_outcome, 'after',
                         coalesce(e.list, '[]'))::text as json,
       j.last_outcome
from (select u.id from unnest(deferred.__flow_nodes($1::int8, $2::int4, $3::int8)) u(id)) n
left join deferred.__deferred_member m on m.job = n.id
left join lateral (select x.fn, x.state, x.label, x.last_outcome from deferred.job x
                   where x.id = n.id offset 0) j on true
left join lateral (
    select string_agg(coalesce('event ''' || p.event || '''', p.parent::text)
                      || case deferred.__edge_on(p.kind)
                         when 'ok' then '' else ' (' || deferred.__edge_on(p.kind) || ')' end,
                      ', ' order by p.parent) filter (where p.i <= 20)
               || case when count(*) > 20 then ', ...' else '' end as says,
           json_agg(case when p.event is null
                         then json_build_object('id', p.parent, 'on', deferred.__edge_on(p.kind))
                         else json_build_object('event', p.event, 'on', deferred.__edge_on(p.kind))
                    end order by p.parent) as list
    from (select x.*, a.name as event, row_number() over (order by x.parent) as i
          from deferred.__deferred_edge x
          left join deferred.__deferred_awaited a on a.child = x.child and a.parent = x.parent
          where x.child = n.id order by x.parent limit 1000) p) e on true
order by n.id
