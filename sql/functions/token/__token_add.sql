-- Adds a token of the JSON API, of which the caller has made the SHA-256. The arguments functions
-- and queues are as in __deferred_token. NULL for expires_ms: the token is valid without end.
create or replace function deferred.__token_add(name text, sha256 bytea, may text[],
                                                functions text[], queues text[],
                                                expires_ms bigint) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    v_bad text;
begin
    if ($1 ~ '^[A-Za-z0-9_][A-Za-z0-9_.-]{0,56}$') is not true then
        raise exception using errcode = '22023',
            message = format('token name ''%s'' is invalid', left($1, 200)),
            hint = 'a name has 1 to 57 letters, digits, ''_'', ''.'' and ''-''';
    end if;
    select coalesce(m, '') into v_bad from unnest($3) m
    where (m in ('defer', 'read', 'control', 'work')) is not true;
    if found or coalesce(cardinality($3), 0) = 0 then
        raise exception using errcode = '22023',
            message = format('token ''%s'': right ''%s'' is unknown', $1, left(v_bad, 200)),
            hint = 'give at least one of these rights: defer, read, control, work';
    end if;
    insert into deferred.__deferred_token (name, sha256, may, functions, queues, created_by,
                                           expires_at)
    values ($1, $2, array(select distinct m from unnest($3) m order by m),
            deferred.__token_names($1, 'function', $4), deferred.__token_names($1, 'queue', $5),
            deferred.__actor(), deferred.__token_expiry($1, $6));
exception when unique_violation then
    raise exception using errcode = '42710', message = format('token ''%s'' exists already', $1),
        hint = 'replace the token: deferred token rotate NAME';
end
$$;
