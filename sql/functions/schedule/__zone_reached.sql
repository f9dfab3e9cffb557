-- PostgreSQL answers the second of two repeated times, and shifts those that were skipped.
create or replace function deferred.__zone_reached(zone text, local timestamp) returns timestamp
language plpgsql stable
as $$
declare
    v_at    timestamp := (local at time zone zone) at time zone 'UTC';
    v_early timestamp := v_at - interval '48 hours';
    v_low   bigint := 0;
    v_high  bigint := 96 * 3600;
    v_mid   bigint;
begin
    if ((v_at at time zone 'UTC') at time zone zone) = local then
        -- By what clocks showed two days before, was it there already?
        v_early := local - (((v_early at time zone 'UTC') at time zone zone) - v_early);
        return case when v_early < v_at
                        and ((v_early at time zone 'UTC') at time zone zone) = local then v_early
                            else v_at end;
    end if;
    v_at := date_trunc('second', v_at) - interval '48 hours';
    while v_high - v_low > 1 loop
        v_mid := (v_low + v_high) / 2;
        if ((v_at + v_mid * interval '1 second') at time zone 'UTC') at time zone zone < local then
            v_low := v_mid;
        else
            v_high := v_mid;
        end if;
    end loop;
    return v_at + v_high * interval '1 second';
end
$$;
comment on function deferred.__zone_reached is
    'first moment at which the clocks of a zone show a local time, or have passed it; in UTC';
