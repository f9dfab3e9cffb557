-- One expression, so that the planner puts it in the place of the call.
create or replace function deferred.__opts_ok(label text, key text, max_attempts integer,
                                              timeout_ms bigint,
    backoff_floor_ms bigint, backoff_ceiling_ms bigint, backoff_exponent double precision)
returns boolean
language sql immutable
as $$
    select not coalesce(length(label) > 1000 or length(key) not between 1 and 1000
                        or octet_length(key) > 2500 or max_attempts < 1
        or timeout_ms not between 1 and 3155760000000
        or backoff_floor_ms not between 1 and 3155760000000
        or backoff_ceiling_ms not between 1 and 3155760000000
        or backoff_exponent not between 1 and 100, false)
$$;
comment on function deferred.__opts_ok is 'true if these options of a job are in range';
grant execute on function deferred.__opts_ok to deferred_worker;
