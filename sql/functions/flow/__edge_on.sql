create or replace function deferred.__edge_on(kind "char") returns text
language sql immutable
as $$
    select case when kind in ('o', 'O') then 'ok' when kind in ('f', 'F') then 'failed'
                else 'ended' end
$$;
comment on function deferred.__edge_on is
    'the condition of an edge, as option "after" and callbacks of flows have it';
grant execute on function deferred.__edge_on to deferred_worker, deferred_viewer, deferred_producer;
