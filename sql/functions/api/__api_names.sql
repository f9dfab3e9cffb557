-- The names in a list of a request. NULL: there is no list.
create or replace function deferred.__api_names(member text, list json) returns text[]
language plpgsql immutable set search_path = pg_catalog, pg_temp
as $$
begin
    if coalesce(json_typeof($2), 'null') = 'null' then return null; end if;
    if json_typeof($2) <> 'array' then
        raise exception using errcode = '22023',
            message = format('member ''%s'' must be a JSON array, but a JSON %s was given', $1,
                             json_typeof($2)),
            hint = 'for example ["mail"]';
    end if;
    return array(select coalesce(x, '') from json_array_elements_text($2) x);
end
$$;
