-- The latest tick up to a moment, by bisection between the first tick and that moment. Months of
-- ticks each minute take a few dozen steps.
create or replace function deferred.__schedule_latest(s deferred.__deferred_schedule,
                                                      first timestamptz, until timestamptz) returns
                                                          timestamptz
language plpgsql stable set search_path = pg_catalog, pg_temp
as $$
declare
    v_tick timestamptz := first;
    v_high timestamptz := until;  -- no tick lies between that and until
    v_next timestamptz;
    v_mid  timestamptz;
begin
    loop
        v_next := deferred.__cron_next(s.cron, s.zone, v_tick);
        exit when v_next is null or v_next > until;
        v_mid := v_next + (v_high - v_next) / 2;
        v_tick := v_next;
        v_next := deferred.__cron_next(s.cron, s.zone, v_mid);
        if v_next <= until then
            v_tick := v_next;
        else
            v_high := v_mid;
        end if;
    end loop;
    return v_tick;
end
$$;
comment on function deferred.__schedule_latest is
    'latest tick of a schedule up to a moment; first is one';
