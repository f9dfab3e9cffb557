-- The next tick of a rule, on the server's clock and by its time zones, so that all hosts agree.
-- Changes of clocks as Debian's cron has them:
--
-- A fixed rule names local times. A tick is the moment at which the clocks first show or pass a
-- named time. So a skipped time ticks when the clocks are put forward, and a repeated time ticks
-- once. The search starts at the latest time that the clocks have shown until now.
--
-- Any other rule names the moments at which the clocks show its times. Times in a gap do not exist,
-- and repeated times tick twice. While the clocks run evenly, the next tick follows from the
-- calendar alone. If a clock change lies between, the search starts again after the change. No
-- change is larger than two days, and changes more than two days apart are met one by one. A tick
-- that is years ahead is approached to two days.
create or replace function deferred.__cron_next(c deferred.__cron, zone text,
                                                after timestamptz) returns timestamptz
language plpgsql stable
as $$
declare
    v_near  constant interval := '48 hours';
    v_at    timestamp := date_trunc('second', after at time zone 'UTC');
    v_local timestamp := (v_at at time zone 'UTC') at time zone zone;
    v_want  timestamp;
    v_hit   timestamp;
    v_stop  timestamp;
    v_us    bigint;
begin
    if c.every_us is not null then
        v_us := extract(epoch from after) * 1000000;
        v_us := (v_us - ((v_us % c.every_us) + c.every_us) % c.every_us) + c.every_us;
        return (timestamp '1970-01-01' + v_us * interval '1 microsecond') at time zone 'UTC';
    end if;
    if c.fixed then
        v_stop := v_at - v_near;
        -- they were set back since
        if ((v_stop at time zone 'UTC') at time zone zone) + v_near > v_local then
            v_stop := deferred.__zone_change(zone, v_stop, v_at) - interval '1 second';
            v_local := greatest(v_local, (v_stop at time zone 'UTC') at time zone zone);
        end if;
        v_want := deferred.__cron_local(c, v_local);
        return deferred.__zone_reached(zone, v_want) at time zone 'UTC';
    end if;
    for v_step in 1 .. 1000 loop
        v_want := deferred.__cron_local(c, v_local);
        v_hit := v_at + (v_want - v_local);
        v_stop := least(v_hit, v_at + v_near);
        exit when v_hit is null;
        if ((v_stop at time zone 'UTC') at time zone zone) - v_local = v_stop - v_at then
            if v_stop = v_hit then
                return v_hit at time zone 'UTC';
            end if;
            v_at := greatest(v_stop, v_hit - v_near);
            v_local := (v_at at time zone 'UTC') at time zone zone;
        else
            v_stop := deferred.__zone_change(zone, v_at, v_stop);
            v_at := v_stop - interval '1 second';
            v_local := ((v_stop at time zone 'UTC') at time zone zone) - interval '1 second';
        end if;
    end loop;
    return null;
end
$$;
comment on function deferred.__cron_next is
    'first tick of a rule after a moment; NULL: there is none any more';
