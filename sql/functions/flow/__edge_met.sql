-- What an edge wants (__deferred_edge.kind), and how the parent ended (what). A callback counts as
-- met what does not decide yet: that one of success waits for nobody who was not needed, and that
-- one of failure knows of one, __deferred_wait.failure says.
create or replace function deferred.__edge_met(kind "char", what "char") returns boolean
language sql immutable
as $$
    select kind in ('e', 'F') or kind = what or (kind = 'O' and what in ('o', 'n'))
$$;
comment on function deferred.__edge_met is
    'true if a parent that ended so does not keep its child from being run';
grant execute on function deferred.__edge_met to deferred_worker;
