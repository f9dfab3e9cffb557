-- Refuses what neither the owner nor the role that acts may defer: deferred.__deferred_grant limits
-- both. A schedule, a rule, a retry and an on_dead defer jobs too. If queue is NULL, a grant must
-- be for all queues.
create or replace function deferred.__defer_check(owner name, queue text, fn text) returns void
language plpgsql stable set search_path = pg_catalog, pg_temp
as $$
begin
    if not (select coalesce(bool_and(x.allowed), true)
            from (select bool_or((g.queue is null or coalesce(g.queue = $2, false))
                                 and (g.fn is null or g.fn = $3)) as allowed
                  from deferred.__deferred_grant g
                  where g.role in ($1, deferred.__actor(), session_user) group by g.role = $1) x)
        then
        raise exception using errcode = '42501',
            message = format('role ''%s'' may not defer ''%s'' to %s',
                             deferred.__actor(), $3,
                             coalesce('queue ''' || $2 || '''', 'every queue')),
            hint = 'an administrator allows it with a row in the table '
                   'deferred.__deferred_grant, see deferred-queue(1)';
    end if;
end
$$;
