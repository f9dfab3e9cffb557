-- admin_show_edges: what a job waits for, or waited for, and what waits for it. Of each the first
-- 50; the one behind them says that there are more.
-- params: job int8
-- returns: above bool, id int8, on text, name text, fn text, state text, label text
-- Rows: parents first, in order of id. Column on: how it must end
-- Locks: none. Index: primary keys of __deferred_edge, __deferred and __deferred_hot,
--   __deferred_edge_parent, __deferred_log_job
select e.above, e.id, deferred.__edge_on(e.kind) as on, e.name,
       coalesce(j.fn, case when j.state is not null then 'message' end, '') as fn,
       coalesce(j.state, 'purged') as state, coalesce(j.label, '') as label
from ((select true as above, p.parent as id, p.kind, p.name from deferred.__deferred_edge p
       where p.child = $1::int8 and p.parent > 0 order by p.parent limit 51)
      union all
      (select false, c.child, c.kind, c.name from deferred.__deferred_edge c
       where c.parent = $1::int8 order by c.child limit 51)) e
left join lateral (select x.fn, x.state, x.label from deferred.job x where x.id = e.id offset 0) j
    on true
order by e.above desc, e.id
