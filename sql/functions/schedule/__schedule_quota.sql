-- Each schedule is a job again and again, and takes time to look at. As with __queue_quota(), a
-- role near its quota waits for its other transactions that have added some.
create or replace function deferred.__schedule_quota(name text, creator oid) returns void
language plpgsql set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
declare
    v_role  name := (select r.rolname from pg_roles r where r.oid = creator);
    v_n     bigint;
    v_quota integer := (select q.schedules from deferred.__deferred_quota q
                        where q.creator in (v_role::text, '*') order by q.creator = '*' limit 1);
begin
    if pg_has_role(creator, 'deferred_owner', 'member') then return; end if;
    v_n := (select count(*) from deferred.__deferred_schedule s where s.owner = creator);
    if v_n > v_quota / 10 then
        insert into deferred.__deferred_creator (name) values (v_role) on conflict do nothing;
        perform from deferred.__deferred_creator c where c.name = v_role for update;
        v_n := (select count(*) from deferred.__deferred_schedule s where s.owner = creator);
    end if;
    if v_n > v_quota then
        raise exception using errcode = '53400',
            message = format('schedule ''%s'' does not exist, and role ''%s'' may not add more '
                             'than '
                             '%s schedules',
                             name, v_role, v_quota),
            hint = 'an administrator raises the quota in the table deferred.__deferred_quota, '
                   'see deferred-schedule(1)';
    end if;
end
$$;
comment on function deferred.__schedule_quota is
    'refuses a schedule that was added if its owner has more than he may';
