-- Refuses a role that is not an operator: part of deferred.__act() and its like.
create or replace function deferred.__act_allowed() returns void
language plpgsql set search_path = pg_catalog, pg_temp
as $$
begin
    if not pg_has_role(deferred.__actor(), 'deferred_operator', 'member') then
        raise exception using errcode = '42501',
            message = format('role ''%s'' may not act on jobs and queues', deferred.__actor()),
            hint = format('grant deferred_operator to %I', deferred.__actor());
    end if;
end
$$;
