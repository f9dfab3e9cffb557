create or replace function deferred.__message_text_escaped(params json) returns text
language plpgsql immutable
as $$
begin
    return params #>> '{}';
exception when data_exception then
    return params::text;  -- what PostgreSQL cannot hold as text: \u0000, half a surrogate pair
end
$$;
comment on function deferred.__message_text_escaped(json) is
    'part of deferred.__message_text(): a string with escapes in it';
grant execute on function deferred.__message_text_escaped(json) to deferred_http;
