-- Adds the partitions that a number of jobs need, as deferred.__id_room() does, and returns how
-- many. For a program that fills a queue by a rule.
create or replace function deferred.__rule_room(jobs double precision) returns integer
language plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '500ms'
as $$
begin
    return deferred.__id_room(jobs);
exception when lock_not_available then
    return 0;  -- somebody reads for long: the next call does it
end
$$;
grant execute on function deferred.__rule_room to deferred_producer;
