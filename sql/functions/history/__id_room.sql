-- Adds the partitions for a number of jobs, plus half a partition, and those of jobs in the default
-- partition. Returns the number of partitions added. Callers run it in a transaction of its own: a
-- job in the default partition is moved later, at twice the cost.
--
-- A partition is named by its first id. It begins where the one before ends, or at a multiple of 10
-- million if there is none. It is as wide as __id_width() says, and ends before the next partition.
--
-- It does not catch a lock that it cannot get. Under maintain(), a subtransaction would turn the
-- lock of the row of __deferred_upkeep into a multixact.
create or replace function deferred.__id_room(jobs double precision) returns integer
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    v_least constant bigint := 10000000;
    v_jobs  constant bigint := least(greatest(jobs, 0), 1e9)::bigint;
    v_made  integer := 0;
    v_last  bigint;
    v_width bigint;
    v_at    bigint;
    v_past  bigint;
    v_first bigint;
begin
    select s.last_value into v_last from deferred.__deferred_id_seq s;
    -- The common case: a look at one row.
    if v_last + v_jobs < (select u.room_until from deferred.__deferred_upkeep u) then return 0;
    end if;
    -- A row, not an advisory lock, which anybody who can connect could hold.
    perform from deferred.__deferred_upkeep for update skip locked;
    if not found then return 0; end if;

    v_width := deferred.__id_width(v_last, v_jobs);
    v_at := least(v_last, (select min(d.id) from deferred.__deferred_default d where d.id > 0));
    while v_at <= v_last + v_jobs + v_width / 2 loop
        select p.past::bigint into v_past from deferred.__partitions('deferred.__deferred') p
        where v_at >= p.first::bigint and v_at < p.past::bigint;
        if not found then
            select greatest(v_at / v_least * v_least,
                            max(p.past::bigint) filter (where p.past::bigint <= v_at)),
                   min(p.first::bigint) filter (where p.first::bigint > v_at)
            into v_first, v_past from deferred.__partitions('deferred.__deferred') p;
            v_past := least(v_first + v_width, v_past);
            perform deferred.__add_partition('__deferred', '__deferred_' || v_first, 'id',
                                             v_first::text, v_past::text,
                                             v_last >= v_first - v_width / 100);
            v_made := v_made + 1;
        end if;
        -- Of ids below the sequence only those in the default partition need a partition.
        v_at := greatest(v_past,
                         least(v_last, (select min(d.id) from deferred.__deferred_default d
                                        where d.id >= v_past)));
    end loop;
    update deferred.__deferred_upkeep u set room_until = v_at - v_width / 2;
    return v_made;
end
$$;
