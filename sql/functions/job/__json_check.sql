-- The type json accepts escapes that no text of PostgreSQL can hold, and numbers without a bound.
-- They would fail later, in the words of the server. The patterns keep common values from being
-- parsed again. Jobs in an array are read as text, so their numbers are checked one by one.
create or replace function deferred.__json_check(what text, given json) returns void
language plpgsql immutable set search_path = pg_catalog, pg_temp
as $$
begin
    if (strpos(given::text, E'\\u') > 0 and given::text ~ E'\\\\u(0000|[dD][89a-fA-F])')
       or (json_typeof(given) = 'object' and given::text ~ E'[0-9][eE]\\+?[0-9]{4}') then
        perform given::jsonb;
    end if;
exception
    when untranslatable_character or invalid_text_representation
         or numeric_value_out_of_range then
        raise exception using errcode = sqlstate,
            message = format('%s: %s', what, case sqlstate
                when '22P05' then E'the escape \\u0000 cannot be stored as text'
                when '22P02' then E'an escape such as \\ud83d is half of a surrogate pair'
                else 'a number is too large' end),
            hint = case sqlstate
                when '22003' then 'write a smaller number, or write it as a JSON string'
                else 'remove the escape, or encode the text in Base64' end;
end
$$;
comment on function deferred.__json_check is
    'refuses JSON that cannot be read as jsonb';
grant execute on function deferred.__json_check to deferred_producer;
