-- A number among the options of a job. A pattern checks it, because a cast would fail in the words
-- of the server, and an exception block would cost each call a subtransaction. One expression, so
-- that the planner puts it in the place of the call.
create or replace function deferred.__number(name text, number text) returns double precision
language sql immutable
as $$
    select case when number ~ (case name when 'backoff_exponent' then '^[0-9]{1,3}([.][0-9]{1,9})?$'
                                         else '^-?[0-9]{1,9}$' end) then number::double precision
                when number is not null then deferred.__number_refuse(name, number) end
$$;
comment on function deferred.__number(text, text) is 'a number among the options of a job';
grant execute on function deferred.__number(text, text) to deferred_producer;
