-- Moments are timestamps in UTC here and in __zone_reached() and __cron_next(). The difference of
-- two such timestamps is exact, whatever the time zone of the session.
create or replace function deferred.__zone_change(zone text, low timestamp,
                                                  high timestamp) returns timestamp
language plpgsql stable
as $$
declare
    v_ahead constant interval := ((low at time zone 'UTC') at time zone zone) - low;
    v_low  bigint := 0;  -- seconds behind low: as there
    v_high bigint := extract(epoch from high - low);
    v_mid  bigint;
    v_at   timestamp;
begin
    while v_high - v_low > 1 loop
        v_mid := (v_low + v_high) / 2;
        v_at := low + v_mid * interval '1 second';
        if ((v_at at time zone 'UTC') at time zone zone) - v_at = v_ahead then
            v_low := v_mid;
        else
            v_high := v_mid;
        end if;
    end loop;
    return low + v_high * interval '1 second';
end
$$;
comment on function deferred.__zone_change is
    'first second after low at which clocks differ from UTC by something else than at low, as '
    'they do at high';
