-- Does this receipt hold the row? A worker's never does: it ends its claims itself.
create or replace function deferred.__message_holds(receipt bigint, held bigint, put_receipt bigint,
                                                    attempt integer, worker bigint) returns boolean
language sql immutable
as $$
    select $5 is null and $1 <> 0 and coalesce($1 = $2, $4 = 0 and $1 = $3, false)
$$;
comment on function deferred.__message_holds is
    'true if a receipt is the one of the last take or, where there was none, of the put';
