create or replace function deferred.__message_text(params json) returns text
language sql immutable
as $$
    select case when json_typeof($1) <> 'string' then $1::text
                when strpos($1::text, E'\\u') = 0 then $1 #>> '{}'
                else deferred.__message_text_escaped($1) end
$$;
comment on function deferred.__message_text(json) is
    'params of a message as its text: of a string what it says, else the JSON as it stands';
grant execute on function deferred.__message_text(json) to deferred_http;
