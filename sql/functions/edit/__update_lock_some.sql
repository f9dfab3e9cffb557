-- Does for several jobs what deferred.__update_lock() does for one, in as many subtransactions as
-- they have lanes. Returns those that nobody holds, in the order of their ids.
create or replace function deferred.__update_lock_some(p_ids bigint[])
returns setof deferred.__deferred_hot
language plpgsql set search_path = pg_catalog, pg_temp
as $$
begin
    perform from deferred.__deferred_hot x where x.id = any (p_ids) order by x.id for update;
    perform deferred.__lane_await(l.queue, l.priority)
    from (select distinct x.queue, x.priority from deferred.__deferred_hot x
          where x.id = any (p_ids) and x.fn is not null and not x.limited and x.due_at is null) l;
    return query select x.* from deferred.__deferred_hot x
                 where x.id = any (p_ids) and deferred.__update_free(x) order by x.id;
end
$$;
comment on function deferred.__update_lock_some is
    'part of "deferred update": locks jobs, and returns those that nobody holds';
