-- Whether no worker has a function, and which host has refused it last, and why. Before any worker
-- has reported its functions, none is unknown.
create or replace function deferred.__unoffered(fn text)
returns table (unknown boolean, host text, why text)
language sql stable
as $$
    select $1 not in (select o.fn from deferred.__offered o)
           and exists (select from deferred.__deferred_offer), r.host, r.plugin
    from (select) one
    left join lateral (
        select o.host, f.plugin from deferred.__deferred_offer o
        cross join lateral unnest(o.fn, o.plugin, o.max_attempts) f(fn, plugin, max_attempts)
        where f.fn = $1 and f.max_attempts < 0 order by o.seen_at desc limit 1) r on true
$$;
grant execute on function deferred.__unoffered to deferred_worker, deferred_viewer;
