-- Computes the next ticks again of some schedules that were not checked for an hour. If the
-- server's clock went ahead and came back, they lie too far ahead. With newer time zones they may
-- be wrong. A due tick is left to the next call of deferred.__tick(), and a locked schedule to a
-- later call.
create or replace function deferred.__schedule_check(most integer) returns integer
language plpgsql set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
declare
    v_now  constant timestamptz := clock_timestamp();
    v_next timestamptz;
    v_n    integer := 0;
    s      deferred.__deferred_schedule;
begin
    for s in
        select x.* from deferred.__deferred_schedule x
        where x.next_at > v_now and x.checked_at not between v_now - interval '1 hour' and v_now
        limit most for update skip locked
    loop
        begin
            v_next := deferred.__cron_next(s.cron, s.zone, v_now);
        exception when others then
            -- One whose time zone is no longer known keeps nobody from the others, nor maintain()
            -- from its work.
            update deferred.__deferred_schedule x set checked_at = v_now, last_error =
            left(sqlerrm, 1000) where x.id = s.id;
            continue;
        end;
        update deferred.__deferred_schedule x set next_at = v_next, checked_at = v_now
        where x.id = s.id;
        if v_next is distinct from s.next_at then
            v_n := v_n + 1;
            perform deferred.__schedule_moved(s.queue, v_next) where v_next is not null;
        end if;
    end loop;
    return v_n;
end
$$;
comment on function deferred.__schedule_check(integer) is
    'part of deferred.maintain(): computes next ticks again; returns how many changed';
