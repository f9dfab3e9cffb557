create or replace function deferred.__message_queue_rm(queue text, batch integer, out status integer, out upto bigint, out more boolean)
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
    perform from deferred.__deferred_queue q where q.name = $1 and q.removed_at is null for update;
    if not found then
        status := 1;
        more := false;
        return;
    end if;
    perform deferred.__queue_rm($1);
    upto := deferred.__message_last_id();
    select c.more into more from deferred.__message_clear_some($1, upto, $2) c;
    if more then
        update deferred.__deferred_queue q set clearing_to = upto where q.name = $1;
    end if;
    status := 0;
end
$$;
comment on function deferred.__message_queue_rm(text, integer) is 'removes a queue and clears some of its jobs; deferred.__message_clear() goes on while there are more';
grant execute on function deferred.__message_queue_rm(text, integer) to deferred_http;
