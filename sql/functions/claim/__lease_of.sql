-- The lease that holds a call. By the span of its ids: however many leases are or were there, few
-- have the job between their lowest and their highest.
create or replace function deferred.__lease_of(p_id bigint,
                                               p_xid xid8) returns deferred.__deferred_lease
language sql stable
as $$
    select l from deferred.__deferred_lease l
    where l.span @> p_id and p_id = any (l.ids) and l.expires_at > clock_timestamp()
      and pg_visible_in_snapshot(p_xid, l.snap)
    order by l.expires_at desc limit 1
$$;
comment on function deferred.__lease_of is
    'the live lease that holds a call whose hot row has that xid; NULL: none does';
grant execute on function deferred.__lease_of to deferred_worker;
