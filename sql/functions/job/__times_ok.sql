-- run_at may be -infinity, which means at once. A hundred years of delay can be added to the clock.
-- One expression, as in __time_ok().
create or replace function deferred.__times_ok(
    run_at timestamptz, expires_at timestamptz, delay_ms bigint, expires_ms bigint) returns boolean
language sql immutable
as $$
    select coalesce((deferred.__time_ok(run_at) or run_at = '-infinity')
        and deferred.__time_ok(expires_at)
        and delay_ms between 0 and 3155760000000 and expires_ms between 0 and 3155760000000, true)
$$;
comment on function deferred.__times_ok is 'true if these times of a job are in range';
grant execute on function deferred.__times_ok to deferred_worker;
