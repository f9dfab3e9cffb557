-- kind is the condition of an edge (__deferred_edge.kind). what says how the parent ended. An edge
-- of a callback counts as met if its parent decides nothing yet. A callback on success does not
-- wait for jobs that were not needed. A callback on failure is decided by __deferred_wait.failure.
create or replace function deferred.__edge_met(kind "char", what "char") returns boolean
language sql immutable
as $$
    select kind in ('e', 'F') or kind = what or (kind = 'O' and what in ('o', 'n'))
$$;
comment on function deferred.__edge_met is
    'true if a parent that ended so does not keep its child from being run';
grant execute on function deferred.__edge_met to deferred_worker;
