-- The actor `token:NAME`, if a token acts. NULL: none does. Any session can make the setting, but
-- it counts for a login of deferred_http alone. That program has checked the token:
-- deferred.__api_begin().
create or replace function deferred.__acting_token() returns text
language plpgsql stable set search_path = pg_catalog, pg_temp
as $$
begin
    if current_setting('deferred.token', true) <> ''
        and pg_has_role(session_user, 'deferred_http', 'member') then
        return current_setting('deferred.token', true);
    end if;
    return null;
end
$$;
grant execute on function deferred.__acting_token to deferred_producer;
