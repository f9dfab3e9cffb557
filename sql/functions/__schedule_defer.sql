-- Who has a schedule of his roles defer is kept by deferred.__deferred_grant as in all he defers; and a job that was dropped is none.
create or replace function deferred.__schedule_defer(s deferred.__deferred_schedule, tick timestamptz) returns bigint
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    v_id bigint;
begin
    if not deferred.__rule_may_defer((select r.rolname from pg_roles r where r.oid = s.owner), s.queue, s.fn) then
        raise exception using errcode = '42501', message = format('role %I may not defer %L to queue %L', deferred.__actor(), s.fn, s.queue),
            hint = 'an administrator grants it by a row in deferred.__deferred_grant';
    end if;
    v_id := deferred.__schedule_job(s, tick, tick);
    if v_id is null then
        raise exception using errcode = '53400', message = format('queue %L is full, and drops', s.queue);
    end if;
    return v_id;
end
$$;
comment on function deferred.__schedule_defer is 'stores one job of a schedule for somebody who asks for it';
