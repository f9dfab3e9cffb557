-- The members of a body that are not values of the client's own. A function in SQL would be planned
-- at each call.
create or replace function deferred.__api_plain(body json) returns json
language plpgsql immutable set search_path = pg_catalog, pg_temp
as $$
begin
    return (select coalesce(json_object_agg(e.key, e.value), '{}')
            from json_each($1) e where e.key <> all ('{params,payload,value,result}'));
end
$$;
