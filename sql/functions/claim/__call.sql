-- The call of one job. The planner inlines this. The bounds are known before the plan begins: of
-- all partitions only those are opened that have ids between them.
create or replace function deferred.__call(p_id bigint, p_first bigint, p_last bigint)
returns setof deferred.__deferred
language sql stable rows 1
as $$
    select d.* from deferred.__deferred d
    where d.id = any (array[p_id]) and d.id between p_first and p_last limit 1
$$;
grant execute on function deferred.__call to deferred_worker;
