-- The time at which a token expires that is valid for expires_ms from now on. NULL: never.
create or replace function deferred.__token_expiry(token text, expires_ms bigint)
returns timestamptz
language plpgsql set search_path = pg_catalog, pg_temp
as $$
begin
    if $2 not between 1 and 315360000000 then
        raise exception using errcode = '22023',
            message = format('token ''%s'' cannot expire after %s ms', $1, $2),
            hint = 'give a span of up to 3650 days';
    end if;
    return clock_timestamp() + $2 * interval '1 millisecond';
end
$$;
