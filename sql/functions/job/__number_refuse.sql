create or replace function deferred.__number_refuse(name text, number text) returns double precision
language plpgsql immutable
as $$
begin
    raise exception using errcode = '22023',
        message = format('option ''%s'' is not a number: ''%s''', name, left(number, 200)),
        hint = 'write a number without quotes, such as 3';
end
$$;
comment on function deferred.__number_refuse(text, text) is
    'part of deferred.__number(): raises what is not a number';
grant execute on function deferred.__number_refuse(text, text) to deferred_producer;
