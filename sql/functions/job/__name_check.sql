-- Raises an error if this cannot be the name of a queue, rule, schedule or function, as kind says.
create or replace function deferred.__name_check(kind text, name text) returns void
language plpgsql immutable set search_path = pg_catalog, pg_temp
as $$
begin
    if (length(name) <= case kind when 'function' then 127 else 88 end
        and name ~ case kind when 'function' then '^[A-Za-z_][A-Za-z0-9_.]*$'
                        else '^[A-Za-z0-9_][A-Za-z0-9_.-]*$' end) is not true then
        raise exception using errcode = '22023',
            message = format('%s name ''%s'' is invalid', kind, left(name, 200)),
            hint = case kind when 'function'
                   then 'a name has 1 to 127 letters, digits, ''_'' and ''.'', and begins with a '
                        'letter or ''_'''
                   else 'a name has 1 to 88 letters, digits, ''_'', ''.'' and ''-''' end;
    end if;
end
$$;
