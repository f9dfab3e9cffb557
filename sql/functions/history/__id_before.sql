-- Jobs below this id come before job after, and were deferred before a time. NULL: any. The order
-- of ids is that of time only about, so a minute more is looked at.
create or replace function deferred.__id_before(after bigint, until timestamptz) returns bigint
language sql stable
as $$
    select least(coalesce(after, 9223372036854775807),
                 case when until is not null
                      then deferred.__fold_id(0, until + interval '1 minute') + 1 end)
$$;
grant execute on function deferred.__id_before to deferred_worker, deferred_viewer;
