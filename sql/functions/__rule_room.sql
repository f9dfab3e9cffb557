-- Partitions for so many jobs, in a transaction of its own: what lands in the net is moved later, at twice the cost.
create or replace function deferred.__rule_room(jobs double precision) returns integer
language plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '500ms'
as $$
declare
    v_made  integer := 0;
    v_width constant bigint := 10000000;
    v_last  bigint := (select last_value from deferred.__deferred_id_seq);
begin
    if not pg_try_advisory_xact_lock(hashtextextended('deferred.maintain', 0)) then return 0; end if;
    for i in v_last / v_width .. (v_last + least(greatest(jobs, 0), 1e9)::bigint + v_width / 2) / v_width loop
        if to_regclass(format('deferred.%I', '__deferred_' || i)) is null then
            perform deferred.__add_partition('__deferred', '__deferred_' || i, 'id', (i * v_width)::text, ((i + 1) * v_width)::text,
                v_last >= i * v_width - v_width / 100);
            v_made := v_made + 1;
        end if;
    end loop;
    return v_made;
exception when lock_not_available then
    return 0;
end
$$;
comment on function deferred.__rule_room(double precision) is 'adds the partitions that so many jobs need; returns how many';
grant execute on function deferred.__rule_room(double precision) to deferred_producer;
