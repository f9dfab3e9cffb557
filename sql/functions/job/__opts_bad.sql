-- Returns the first option of a job that is wrong. The array has its name, its value, and what it
-- takes, which is NULL for a span. A fourth element names an option that must be given too.
-- NULL means that no option is wrong.
--
-- An option that is NULL was not given. run_at may be -infinity, which means at once. A delay of a
-- hundred years can be added to the clock. One expression, so that the planner puts it in the place
-- of the call.
create or replace function deferred.__opts_bad(
    label text default null, key text default null, max_attempts integer default null,
    timeout_ms bigint default null, backoff_floor_ms bigint default null,
    backoff_ceiling_ms bigint default null, backoff_exponent double precision default null,
    run_at timestamptz default null, expires_at timestamptz default null,
    delay_ms bigint default null, expires_ms bigint default null, priority integer default null,
    on_duplicate text default null, concurrency_key text default null,
    concurrency integer default null, key_until_ms bigint default null)
returns text[]
language sql stable
as $$
    select case
        when length(label) > 1000
            then array['label', length(label) || ' characters', 'at most 1000 characters']
        when length(key) not between 1 and 1000 or octet_length(key) > 2500
            then array['key', length(key) || ' characters, ' || octet_length(key) || ' bytes',
                       '1 to 1000 characters, at most 2500 bytes']
        when max_attempts < 1
            then array['max_attempts', max_attempts::text, 'a number from 1 on']
        when timeout_ms not between 1 and 3155760000000
            then array['timeout', timeout_ms || ' ms', null]
        when backoff_floor_ms not between 1 and 3155760000000
            then array['backoff_floor', backoff_floor_ms || ' ms', null]
        when backoff_ceiling_ms not between 1 and 3155760000000
            then array['backoff_ceiling', backoff_ceiling_ms || ' ms', null]
        when backoff_exponent not between 1 and 100
            then array['backoff_exponent', backoff_exponent::text, '1 to 100']
        when not (deferred.__time_ok(run_at) or run_at = '-infinity')
            then array['run_at', run_at::text, 'a time in the years 1 to 9999']
        when not deferred.__time_ok(expires_at)
            then array['expires_at', expires_at::text, 'a time in the years 1 to 9999']
        when delay_ms not between 0 and 3155760000000
            then array['delay', delay_ms || ' ms', null]
        when expires_ms not between 0 and 3155760000000
            then array['expires', expires_ms || ' ms', null]
        when priority not between -32768 and 32767
            then array['priority', priority::text,
                       '-32768 to 32767; jobs with a larger priority run earlier']
        when on_duplicate not in ('skip', 'error', 'replace', 'update')
            then array['on_duplicate', left(on_duplicate, 200), 'skip, error, replace or update']
        when length(concurrency_key) not between 1 and 1000
            then array['concurrency_key', length(concurrency_key) || ' characters',
                       '1 to 1000 characters']
        when concurrency not between 1 and 10000
            then array['concurrency', concurrency::text, '1 to 10000']
        when concurrency_key is null and concurrency is not null
            then array['concurrency', concurrency::text, null, 'concurrency_key']
        when key_until_ms not between 0 and 3155760000000
            then array['key_until', key_until_ms || ' ms', null]
        when key is null and key_until_ms is not null
            then array['key_until', 'given', null, 'key'] end
$$;
comment on function deferred.__opts_bad is
    'the first option of a job that is wrong: name, value, what it takes';
grant execute on function deferred.__opts_bad to deferred_worker;
