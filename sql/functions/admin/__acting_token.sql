-- The actor `token:NAME`, if a token acts. NULL: none does. Any session can make the setting, but
-- it counts for a login of deferred_http alone. That program has checked the token:
-- deferred.__api_begin(). No name is looked up in a search_path here, as in deferred.__actor(). A
-- path would have the expressions of the caller planned again at each call.
create or replace function deferred.__acting_token() returns text
language plpgsql stable
as $$
begin
    if pg_catalog.current_setting('deferred.token', true) operator(pg_catalog.<>) ''
        and pg_catalog.pg_has_role(session_user, 'deferred_http', 'member') then
        return pg_catalog.current_setting('deferred.token', true);
    end if;
    return null;
end
$$;
grant execute on function deferred.__acting_token to deferred_producer;
