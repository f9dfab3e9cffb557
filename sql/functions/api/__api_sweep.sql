-- Part of deferred.maintain(): deletes answers whose time is over. Returns how many.
create or replace function deferred.__api_sweep(p_most integer) returns integer
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    v_rows integer;
begin
    delete from deferred.__deferred_idempotency k
    where k.ctid = any (array(select x.ctid from deferred.__deferred_idempotency x
                              where x.kept_until <= clock_timestamp() order by x.kept_until
                              limit p_most for update skip locked));
    get diagnostics v_rows = row_count;
    return v_rows;
end
$$;
comment on function deferred.__api_sweep is
    'part of deferred.maintain(): deletes stored answers of the JSON API';
