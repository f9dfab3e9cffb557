-- Removes a rule; its jobs stay.
create or replace function deferred.__rule_remove(name text) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_id bigint := (deferred.__rule_get($1, true)).id;
begin
    delete from deferred.__deferred_rule x where x.id = v_id;
end
$$;
grant execute on function deferred.__rule_remove to deferred_producer;
