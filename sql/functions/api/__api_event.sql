-- POST /v1/events/{name}: sends an event to the jobs of the token or, with the member role, to
-- those of another producer.
create or replace function deferred.__api_event(t deferred.__deferred_token, name text,
                                                body text) returns text
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    v_body json := deferred.__api_object($3, '{payload,keep,role}');
    v_keep interval := deferred.__ms('keep', v_body->>'keep') * interval '1 millisecond';
begin
    if v_body->>'role' is not null and not 'control' = any (t.may) then
        raise exception using errcode = '42501',
            message = format('token ''%s'' lacks the right ''control''', t.name),
            hint = 'leave out the member role to send the event to jobs of this token';
    end if;
    perform set_config('deferred.token_reach',
                       case when 'control' = any (t.may) then 'all' else '' end, true);
    perform deferred.send_event($2, v_body->'payload', v_keep, (v_body->>'role')::name);
    return json_build_object('name', $2);
end
$$;
