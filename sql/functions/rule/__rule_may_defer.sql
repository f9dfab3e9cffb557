-- deferred.__deferred_grant limits owners of rules too, and cannot be got around by running
-- somebody else's rule. queue NULL: any, so only a grant for all queues will do.
create or replace function deferred.__rule_may_defer(owner name, queue text,
                                                     fn text) returns boolean
language sql stable
as $$
    select coalesce(bool_and(x.allowed), true)
    from (select bool_or((g.queue is null or coalesce(g.queue = $2, false))
                         and (g.fn is null or g.fn = $3)) as allowed
          from deferred.__deferred_grant g where g.role in ($1, deferred.__actor(), session_user)
          group by (g.role = $1)) x
$$;
comment on function deferred.__rule_may_defer(name, text, text) is
    'true if neither the owner of a rule nor who acts is kept from deferring that';
