-- figures_limits: how much of the limits on attempts at once is used.
-- params: queue text, fn text
-- returns: is_fn bool, name text, share float8, running int8, most int4
-- $1, $2 NULL: all
-- Rows: limits that are being used
-- Locks: none. Index: __deferred_limit_pkey; __deferred_hot_pkey for each job that is counted, as
--   many as the limits allow
select x.fn as is_fn, x.name, n.running::float8 / x.most as share, n.running, x.most
from (select l.kind = 'function' as fn, case l.kind when 'function' then l.name
                                             else l.queue end as name, l.running as ids,
                                             coalesce(f.max_running, q.max_running) as most
      from deferred.__deferred_limit l
      left join deferred.__deferred_function f on l.kind = 'function' and f.name = l.name
      left join deferred.__deferred_queue q on l.kind = 'queue' and q.name = l.queue
      where l.kind <> 'key' and coalesce(f.max_running, q.max_running) is not null
        and (($1::text is null and $2::text is null) or (l.kind = 'queue' and l.queue = $1)
             or (l.kind = 'function' and l.name = $2))
      order by 1, 2
      limit 300) x
cross join lateral (select count(*) as running from unnest(x.ids) i(id)
                    where (select h.worker from deferred.__deferred_hot h
                           where h.id = i.id) is not null) n
order by 1, 2
