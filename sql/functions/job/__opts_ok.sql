-- run_at may be -infinity, which means at once. A delay of a hundred years can be added to the
-- clock. One expression, so that the planner puts it in the place of the call.
create or replace function deferred.__opts_ok(
    label text, key text, max_attempts integer, timeout_ms bigint, backoff_floor_ms bigint,
    backoff_ceiling_ms bigint, backoff_exponent double precision, run_at timestamptz default null,
    expires_at timestamptz default null, delay_ms bigint default null,
    expires_ms bigint default null, priority integer default null,
    on_duplicate text default null, concurrency_key text default null,
    concurrency integer default null, key_until_ms bigint default null)
returns boolean
language sql immutable
as $$
    select not coalesce(
        length(label) > 1000 or length(key) not between 1 and 1000 or octet_length(key) > 2500
        or max_attempts < 1
        or timeout_ms not between 1 and 3155760000000
        or backoff_floor_ms not between 1 and 3155760000000
        or backoff_ceiling_ms not between 1 and 3155760000000
        or backoff_exponent not between 1 and 100
        or not (deferred.__time_ok(run_at) or run_at = '-infinity')
        or not deferred.__time_ok(expires_at)
        or delay_ms not between 0 and 3155760000000 or expires_ms not between 0 and 3155760000000
        or priority not between -32768 and 32767
        or on_duplicate not in ('skip', 'error', 'replace', 'update')
        or length(concurrency_key) not between 1 and 1000 or concurrency not between 1 and 10000
        or (concurrency_key is null and concurrency is not null)
        or key_until_ms not between 0 and 3155760000000
        or (key is null and key_until_ms is not null), false)
$$;
comment on function deferred.__opts_ok is 'true if these options of a job are in range';
grant execute on function deferred.__opts_ok to deferred_worker;
