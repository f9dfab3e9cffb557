-- Takes functions from an account: puts to queues that are bound to them are refused from now
-- on.
create or replace function deferred.__account_disallow(name text, functions text[]) returns text[]
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    v_had text[];
    v_bad text;
begin
    select a.functions into v_had from deferred.__deferred_account a where a.name = $1 for update;
    if not found then
        raise exception using errcode = '42704',
            message = format('account ''%s'' does not exist', left($1, 200)),
            hint = 'list the accounts: deferred account ls';
    end if;
    -- Nobody is to believe that a right is gone which has another name.
    select f into v_bad from unnest($2) f where f <> all (v_had) limit 1;
    if found then
        raise exception using errcode = '42704',
            message = format('account ''%s'' has no right to ''%s''', $1, left(v_bad, 200)),
            hint = 'list the rights of each account: deferred account ls';
    end if;
    v_had := array(select f from unnest(v_had) with ordinality as h(f, n) where f <> all ($2)
                   order by n);
    update deferred.__deferred_account a set functions = v_had where a.name = $1;
    return v_had;
end
$$;
