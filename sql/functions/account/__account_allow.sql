-- Lets messages of an account become calls of these functions. Both answer with what the account
-- then has.
create or replace function deferred.__account_allow(name text, functions text[]) returns text[]
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    v_bad text := (select f from unnest($2) f where f is null
                   or f !~ '^[A-Za-z_][A-Za-z0-9_.]{0,126}$'
                   and f !~ E'^[A-Za-z_][A-Za-z0-9_.]{0,124}\\.\\*$' limit 1);
    v_all text[];
begin
    if v_bad is not null then
        raise exception using errcode = '22023',
            message = format('function name ''%s'' is invalid', left(v_bad, 200)),
            hint = 'a name has 1 to 127 letters, digits, ''_'' and ''.'', and begins with a letter '
                   'or ''_''; ''PREFIX.*'' allows each name that begins with PREFIX.';
    end if;
    update deferred.__deferred_account a set functions = array(select distinct f
        from unnest(a.functions || $2) f order by f)
    where a.name = $1 returning functions into v_all;
    if not found then
        raise exception using errcode = '42704',
            message = format('account ''%s'' does not exist', left($1, 200)),
            hint = 'list the accounts: deferred account ls';
    end if;
    return v_all;
end
$$;
