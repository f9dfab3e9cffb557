-- Creates a function in the temporary schema that evaluates a rule with the rights of its owner,
-- and sets the role to that owner. The caller must be able to SET ROLE to the owner, and so this
-- function runs with the rights of the caller. The owner acts from then on until the transaction
-- ends.
create or replace function deferred.__rule_make(r deferred.__deferred_rule, what text,
                                                volatility text, body text) returns void
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    v_owner name := (select x.rolname from pg_roles x where x.oid = r.owner);
    v_sql   text := format(E'create function pg_temp.%s language plpgsql %s security definer '
                           'set search_path = pg_catalog, pg_temp as %L', what, volatility, body);
begin
    if not has_database_privilege(r.owner, current_database(), 'temporary') then
        raise exception using errcode = '42501',
            message = format('rule ''%s'': its owner ''%s'' may not create temporary objects',
                             r.name, v_owner),
            hint = format('grant temporary on database %I to %I', current_database(), v_owner);
    end if;
    if not pg_has_role(r.owner, 'deferred_producer', 'usage') then
        raise exception using errcode = '42501',
            message = format('rule ''%s'': its owner ''%s'' may not defer jobs', r.name, v_owner),
            hint = format('grant deferred_producer to %I', v_owner);
    end if;
    perform set_config('role', v_owner, true);
    execute v_sql;
    execute format('grant execute on function pg_temp.%s to deferred_owner',
                   split_part(what, ' returns', 1));
end
$$;
grant execute on function deferred.__rule_make to deferred_producer;
