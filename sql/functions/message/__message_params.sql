-- The text of a message is stored as a JSON string. In a queue with a function, a JSON object or
-- array is stored as it is, so that the function gets an object.
create or replace function deferred.__message_params(text text, bound boolean) returns json
language plpgsql immutable
as $$
declare
    v_json json;
begin
    if bound and text ~ E'^[ \t\n\r]*[[{]' then
        begin
            v_json := text::json;
            if deferred.__depth_ok(v_json) then return v_json; end if;
        exception when data_exception or program_limit_exceeded then
            null;  -- a text like any other
        end;
    end if;
    return to_json(text);
end
$$;
comment on function deferred.__message_params(text, boolean) is 'text of a message as params';
