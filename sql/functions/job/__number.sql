-- A number among the options of a job. A pattern checks it, because a cast would fail in the words
-- of the server, and an exception block would cost each call a subtransaction.
create or replace function deferred.__number(name text, number text) returns double precision
language plpgsql immutable strict
as $$
begin
    if number !~ (case name when 'backoff_exponent' then '^[0-9]{1,3}([.][0-9]{1,9})?$'
                            else '^-?[0-9]{1,9}$' end) then
        raise exception using errcode = '22023',
            message = format('option ''%s'' is not a number: ''%s''', name, left(number, 200)),
            hint = 'write a number without quotes, such as 3';
    end if;
    return number::double precision;
end
$$;
comment on function deferred.__number(text, text) is 'a number among the options of a job';
grant execute on function deferred.__number(text, text) to deferred_producer;
