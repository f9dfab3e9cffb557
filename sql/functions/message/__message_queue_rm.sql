-- Settings made by clients are deleted. Settings made by an administrator, such as limits, stay in
-- the row and apply when the queue is created again. Otherwise a client could remove limits by
-- removing its queue.
create or replace function deferred.__message_queue_rm(queue text, batch integer,
                                                       out status integer, out upto bigint,
                                                       out more boolean)
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
    update deferred.__deferred_queue q
    set (fn, metadata, max_dequeue, acl, removed_at) = (null, null, null, null, clock_timestamp())
    where q.name = $1 and q.removed_at is null and q.name <> 'default';
    if not found then
        status := 1;
        more := false;
        return;
    end if;
    upto := deferred.__message_last_id();
    select c.more into more from deferred.__message_clear_some($1, upto, $2) c;
    if more then
        update deferred.__deferred_queue q set clearing_to = upto where q.name = $1;
    end if;
    status := 0;
end
$$;
comment on function deferred.__message_queue_rm(text, integer) is
    'removes a queue and clears some of its jobs; deferred.__message_clear() goes on while there '
    'are more';
grant execute on function deferred.__message_queue_rm(text, integer) to deferred_http;
