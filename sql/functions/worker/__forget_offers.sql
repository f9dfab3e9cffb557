-- Deletes the functions of hosts that are gone; returns how many rows. A worker reports its
-- functions when it has work, so one that runs once a month must not be forgotten. If each start is
-- on a host of a new name, the newest thousand count.
create or replace function deferred.__forget_offers() returns bigint
language plpgsql
as $$
declare
    v_rows bigint;
begin
    delete from deferred.__deferred_offer o
    where o.seen_at < now() - interval '35 days'
       or o.seen_at < (select x.seen_at from deferred.__deferred_offer x
                       order by x.seen_at desc offset 999 limit 1);
    get diagnostics v_rows = row_count;
    return v_rows;
end
$$;
