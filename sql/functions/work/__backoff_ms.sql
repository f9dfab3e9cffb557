-- The delay after failure number `failures` (from 1), before its random part: lib/base/retry.c and
-- backoff_ms() in lib/engine/pure/verdict.c. NULL: the default of the setting.
create or replace function deferred.__backoff_ms(floor_ms bigint, ceiling_ms bigint,
                                                 exponent double precision, failures integer)
returns bigint
language plpgsql immutable set search_path = pg_catalog, pg_temp
as $$
declare
    c_most    constant bigint := 3155760000000;  -- a hundred years
    v_floor   bigint := least(coalesce($1, 10000), c_most);
    v_ceiling bigint := least(coalesce($2, 3600000), c_most);
    v_grows   double precision := coalesce($3, 2);
    v_delay   double precision;
begin
    if v_ceiling < v_floor and $2 is null then
        v_ceiling := v_floor;
    end if;
    v_delay := least(v_floor, v_ceiling);
    -- Not power(): its last digits differ.
    for i in 2 .. $4 loop
        exit when v_grows <= 1 or v_delay >= v_ceiling;
        v_delay := v_delay * v_grows;
    end loop;
    return greatest(1, trunc(least(v_delay, v_ceiling))::bigint);
end
$$;
