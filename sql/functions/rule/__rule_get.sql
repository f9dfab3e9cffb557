-- A rule for the owner and members of it. The rule for one who may run it. taking: nobody else runs
-- or removes it until the transaction ends.
create or replace function deferred.__rule_get(name text,
                                               taking boolean) returns deferred.__deferred_rule
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    r deferred.__deferred_rule;
begin
    select * into r from deferred.__deferred_rule x where x.name = $1;
    if not found then
        raise exception using errcode = 'P0002',
            message = format('rule ''%s'' does not exist', left($1, 200)),
            hint = 'list the rules: deferred rule ls';
    end if;
    if not deferred.__rule_is_mine(r.owner) then
        raise exception using errcode = '42501',
            message = format('rule ''%s'' belongs to role ''%s'', and role ''%s'' is not a '
                             'member of it',
                             r.name, r.owner, deferred.__actor()),
            hint = format('run the rule as that role, or: grant %s to %I',
                          r.owner, deferred.__actor());
    end if;
    if taking then
        select * into r from deferred.__deferred_rule x where x.id = r.id
        for no key update skip locked;
        if not found then
            raise exception using errcode = '55006', message = format('rule ''%s'' is running', $1),
                hint = 'wait until that run has ended; it creates jobs for the same rows';
        end if;
    end if;
    return r;
end
$$;
grant execute on function deferred.__rule_get to deferred_producer;
