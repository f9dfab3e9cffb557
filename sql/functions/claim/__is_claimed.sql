-- A worker's claim is a lease, a consumer's stands in the row of the message.
create or replace function deferred.__is_claimed(h deferred.__deferred_hot) returns boolean
language sql stable
as $$
    select case when h.fn is null then h.receipt is not null and h.visible_at > clock_timestamp()
                else (deferred.__lease_of(h.id, h.xid)).worker is not null end
$$;
comment on function deferred.__is_claimed is 'true: a worker or a consumer holds the job';
