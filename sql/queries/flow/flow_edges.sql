-- flow_edges: what waits for what among the first jobs that flow_show answers.
-- params: flow int8, jobs_max int4
-- returns: parent int8, child int8, on text
-- Rows: at most 10,000. Column on: how the parent must end
-- Locks: none. Index: as flow_show.sql
select x.parent, x.child, deferred.__edge_on(x.kind) as on
from (select deferred.__flow_nodes($1::int8, $2::int4) as ids) n
cross join lateral (select e.* from deferred.__deferred_edge e
                    where e.child = any (n.ids) and e.parent = any (n.ids)) x
order by x.child, x.parent limit 10000
