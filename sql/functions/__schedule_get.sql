-- The schedule for one who may change it. taking: nobody else does until the transaction ends; a tick is waited for.
create or replace function deferred.__schedule_get(name text, taking boolean) returns deferred.__deferred_schedule
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    s deferred.__deferred_schedule;
begin
    if taking then
        -- In this order everywhere, see __schedule_moved().
        perform from deferred.__deferred_state for update;
        select * into s from deferred.__deferred_schedule x where x.name = $1 for update;
    else
        select * into s from deferred.__deferred_schedule x where x.name = $1;
    end if;
    if s.id is null then
        raise exception using errcode = 'P0002', message = format('there is no schedule %L', left($1, 200)), hint = 'deferred schedule ls shows them';
    end if;
    if not deferred.__rule_is_mine(s.owner) then
        raise exception using errcode = '42501',
            message = format('schedule %L belongs to role %s, of which %I is no member', s.name, s.owner, deferred.__actor()),
            hint = format('act as that role, or grant %s', s.owner);
    end if;
    return s;
end
$$;
comment on function deferred.__schedule_get(text, boolean) is 'a schedule for its owner and members of it';
