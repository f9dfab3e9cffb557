create or replace function deferred.__json(what text, given text) returns json
language plpgsql immutable set search_path = pg_catalog, pg_temp
as $$
declare
    v_cause text;
    v_place text;
begin
    return given::json;
exception
    when invalid_text_representation then
        get stacked diagnostics v_cause = pg_exception_detail, v_place = pg_exception_context;
        raise exception using errcode = sqlstate,
            message = format('%s: invalid JSON (%s; %s)', what, rtrim(v_cause, '.'),
                             split_part(v_place, E'\n', 1)),
            hint = 'pass one JSON value; text goes in double quotes';
end
$$;
comment on function deferred.__json is 'the JSON that a text holds; refuses other text';
grant execute on function deferred.__json to deferred_producer;
