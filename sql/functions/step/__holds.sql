-- True: the lease with this receipt holds the job whose hot row has that xid, and has not ended. An
-- extended job has a second lease with the same receipt.
create or replace function deferred.__holds(p_id bigint, p_xid xid8, p_receipt bigint)
returns boolean
language sql stable
as $$
    select exists (
        select from deferred.__deferred_lease l
        where l.receipt = p_receipt and p_id = any (l.ids)
          and l.expires_at - clock_timestamp() > interval '0'
          and pg_visible_in_snapshot(p_xid, l.snap))
$$;
comment on function deferred.__holds is 'true: the lease with this receipt holds the job';
