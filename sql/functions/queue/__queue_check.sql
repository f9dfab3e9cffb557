-- Settings of a queue that contradict each other, or the clock.
create or replace function deferred.__queue_check(q deferred.__deferred_queue) returns void
language plpgsql set search_path = pg_catalog, pg_temp
as $$
begin
    if q.paused_until <= now() or not isfinite(q.paused_until) then
        raise exception using errcode = '22023',
            message = format('queue ''%s'': a pause cannot end at %s', q.name, q.paused_until),
            hint = 'give a time in the future, or end the pause: deferred queue resume NAME';
    end if;
    if q.burst is not null and q.rate is null then
        raise exception using errcode = '22023',
            message = format('queue ''%s'' has a burst of %s but no rate', q.name, q.burst),
            hint = 'set the rate too, or unset the burst';
    end if;
    if q.key_burst is not null and q.key_rate is null then
        raise exception using errcode = '22023',
            message = format('queue ''%s'' has a key_burst of %s but no key_rate', q.name,
                             q.key_burst),
            hint = 'set the key rate too, or unset the key burst';
    end if;
    if q.max_dequeue is not null and length(q.name) > 81 then
        raise exception using errcode = '22023',
            message = format('queue ''%s'': the name is too long for max_dequeue', q.name),
            hint = 'messages go to the queue NAME-poison, so the name may have at most 81 '
                   'characters';
    end if;
    if q.backoff_ceiling_ms < q.backoff_floor_ms then
        raise exception using errcode = '22023',
            message = format('queue ''%s'': backoff_ceiling %s ms is below backoff_floor %s ms',
                             q.name, q.backoff_ceiling_ms, q.backoff_floor_ms),
            hint = 'raise backoff_ceiling or lower backoff_floor';
    end if;
end
$$;
comment on function deferred.__queue_check is
    'raises which settings of a queue contradict each other';
