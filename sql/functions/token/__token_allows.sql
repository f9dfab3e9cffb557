-- True if a token with these functions, or queues, may use that one. NULL: it may use any.
create or replace function deferred.__token_allows(names text[], name text) returns boolean
language sql immutable set search_path = pg_catalog, pg_temp
as $$
    select $1 is null
        or exists (select from unnest($1) n
                   where n = $2 or right(n, 2) = '.*' and starts_with($2, left(n, -1)))
$$;
grant execute on function deferred.__token_allows(text[], text) to deferred_http;
