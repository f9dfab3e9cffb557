-- The schedule for one who may change it. taking: nobody else does until the transaction ends. A
-- tick is waited for, a transaction that stays open is not.
create or replace function deferred.__schedule_get(name text,
                                                   taking boolean) returns
                                                       deferred.__deferred_schedule
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    s deferred.__deferred_schedule;
    v_was text;
begin
    if taking then
        begin
            v_was := deferred.__patience('5 seconds');
            select * into s from deferred.__deferred_schedule x where x.name = $1 for update;
            perform set_config('lock_timeout', v_was, true);
        exception when lock_not_available then
            perform deferred.__locked('schedule', $1);
        end;
    else
        select * into s from deferred.__deferred_schedule x where x.name = $1;
    end if;
    if s.id is null then
        raise exception using errcode = 'P0002',
            message = format('schedule ''%s'' does not exist', left($1, 200)),
            hint = 'list the schedules: deferred schedule ls';
    end if;
    if not deferred.__rule_is_mine(s.owner) then
        raise exception using errcode = '42501',
            message = format('schedule ''%s'' belongs to role ''%s'', and role ''%s'' is not a '
                             'member '
                             'of it',
                             s.name, s.owner, deferred.__actor()),
            hint = format('act as that role, or: grant %s to %I', s.owner, deferred.__actor());
    end if;
    return s;
end
$$;
comment on function deferred.__schedule_get(text, boolean) is
    'a schedule for its owner and members of it';
