-- The JSON object that is the body of a request; a body without a byte is an empty object. Refuses
-- members that are not known.
create or replace function deferred.__api_object(body text, known text[]) returns json
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    v_body json := deferred.__api_json('body', $1);
    v_bad  text;
begin
    if json_typeof(v_body) <> 'object' then
        raise exception using errcode = '22023',
            message = format('body must be a JSON object, but a JSON %s was given',
                             json_typeof(v_body)),
            hint = 'write it as {"name": value}';
    end if;
    -- Params and the like are stored as text, so only their escapes are checked.
    perform deferred.__json_check('body', json_build_array(v_body));
    perform deferred.__json_check('body', deferred.__api_plain(v_body));
    select left(k, 200) into v_bad from json_object_keys(v_body) k where k <> all (known) limit 1;
    if found then
        raise exception using errcode = '22023',
            message = format('member ''%s'' of the body is unknown', v_bad),
            hint = 'known members: ' || array_to_string(known, ', ');
    end if;
    return v_body;
end
$$;
