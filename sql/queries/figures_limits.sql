-- figures_limits: how much of the limits on attempts at once is used.
-- no parameters
-- returns function (bool; else a queue), name (text), share used (float8); those that are not being used are not there
-- locks: none. Index: __deferred_limit_pkey; __deferred_hot_pkey for each job that is counted, as many as the limits allow
select l.kind = 'function', case l.kind when 'function' then l.name else l.queue end,
       (select count(*) from unnest(l.running) i(id)
        where (select h.receipt from deferred.__deferred_hot h where h.id = i.id) is not null)::float8 / coalesce(f.max_running, q.max_running)
from deferred.__deferred_limit l
left join deferred.__deferred_function f on l.kind = 'function' and f.name = l.name
left join deferred.__deferred_queue q on l.kind = 'queue' and q.name = l.queue
where l.kind <> 'key' and coalesce(f.max_running, q.max_running) is not null
order by 1, 2
limit 300
