-- The grants in deferred.__deferred_grant limit this as they limit any job that the owner defers. A
-- job that the queue drops is an error.
create or replace function deferred.__schedule_defer(s deferred.__deferred_schedule,
                                                     tick timestamptz) returns bigint
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    v_id bigint;
begin
    perform deferred.__defer_check((select r.rolname from pg_roles r where r.oid = s.owner),
                                   s.queue, s.fn);
    v_id := deferred.__schedule_job(s, tick, tick);
    if v_id is null then
        raise exception using errcode = '53400',
            message = format('queue ''%s'' is full and drops new jobs', s.queue),
            hint = 'run the schedule again later, or raise max_length of the queue';
    end if;
    return v_id;
end
$$;
comment on function deferred.__schedule_defer is
    'stores one job of a schedule for somebody who asks for it';
