-- The taker of a message has its receipt, and worker is NULL. The receipt stays good after the
-- timeout, until somebody else takes the message and logs the attempt before as lost. The receipt
-- of a put is in put_receipt, and is good until the message is taken for the first time.
-- The receipt of a worker never holds a message, because the worker ends its claims itself.
create or replace function deferred.__message_holds(receipt bigint, held bigint, put_receipt bigint,
                                                    attempt integer, worker bigint) returns boolean
language sql immutable
as $$
    select $5 is null and $1 <> 0 and coalesce($1 = $2, $4 = 0 and $1 = $3, false)
$$;
comment on function deferred.__message_holds is
    'true if a receipt is the one of the last take or, where there was none, of the put';
