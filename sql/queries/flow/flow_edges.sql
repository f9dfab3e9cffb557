-- flow_edges: what waits for what among the first jobs that flow_show answers.
-- $1 flow or job (int8), $2 how many jobs at most (int4)
-- returns of each: the parent, who waits for it (int8), as what it has to end: ok, failed, ended (text); at most 10,000
-- locks: none. Index: as flow_show.sql
select x.parent, x.child, deferred.__edge_on(x.kind)
from (select deferred.__flow_nodes($1::int8, $2::int4) as ids) n
cross join lateral (select e.* from deferred.__deferred_edge e where e.child = any (n.ids) and e.parent = any (n.ids)) x
order by x.child, x.parent limit 10000
