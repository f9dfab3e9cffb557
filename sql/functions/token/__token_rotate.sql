-- Replaces a token by another one of the same name and rights. The token before stays valid for
-- grace_ms. The one before that ends. NULL for expires_ms: the time at which it expires stays.
create or replace function deferred.__token_rotate(name text, sha256 bytea, grace_ms bigint,
                                                   expires_ms bigint) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
    if $3 between 0 and 31536000000 is not true then
        raise exception using errcode = '22023',
            message = format('token ''%s'': a grace of %s ms is out of range', left($1, 200), $3),
            hint = 'give a span of up to 365 days';
    end if;
    update deferred.__deferred_token t
    set sha256 = $2, rotated_at = clock_timestamp(),
        old_sha256 = case when $3 > 0 then t.sha256 end,
        old_until = case when $3 > 0 then least(t.expires_at, clock_timestamp()
                                                + $3 * interval '1 millisecond') end,
        expires_at = coalesce(deferred.__token_expiry($1, $4), t.expires_at)
    where t.name = $1;
    if not found then
        perform deferred.__token_missing($1);
    end if;
end
$$;
