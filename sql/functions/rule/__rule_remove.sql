create or replace function deferred.__rule_remove(name text) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_id bigint := (deferred.__rule_get($1, true)).id;
begin
    delete from deferred.__deferred_rule x where x.id = v_id;
end
$$;
comment on function deferred.__rule_remove(text) is 'removes a rule; its jobs stay';
grant execute on function deferred.__rule_remove(text) to deferred_producer;
