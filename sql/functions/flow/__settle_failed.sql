-- Part of deferred.__settle(): has flows cancelled whose jobs have failed.
--
-- A flow may want that the first of its jobs that fails has the rest cancelled. All its jobs are
-- watched. The first call that takes the note of a failure, under the lock of the flow's row,
-- leaves a note (c) of the flow.
create or replace function deferred.__settle_failed(p_failed bigint[]) returns void
language plpgsql
as $$
begin
    with flow as materialized (
        select f.id from deferred.__deferred_flow f
        where f.on_failure = 'cancel' and f.failed is null
          and f.id = any (array(select distinct m.flow from deferred.__deferred_member m
                                where m.job = any (p_failed) and m.part is distinct from 't'))
        order by f.id for update),
    failed as (
        update deferred.__deferred_flow f
        set failed = (select min(m.job) from deferred.__deferred_member m
                      where m.job = any (p_failed) and m.flow = f.id
                        and m.part is distinct from 't')
        from flow x where f.id = x.id and f.failed is null
        returning f.id)
    insert into deferred.__deferred_ended (id, what, upto)
    select f.id, 'c', 9223372036854775807 from failed f;
end
$$;
