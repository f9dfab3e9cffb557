-- Raises that there is no token of that name.
create or replace function deferred.__token_missing(name text) returns void
language plpgsql set search_path = pg_catalog, pg_temp
as $$
begin
    raise exception using errcode = '42704',
        message = format('token ''%s'' does not exist', left($1, 200)),
        hint = 'list the tokens: deferred token ls';
end
$$;
