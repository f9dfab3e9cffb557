-- upto is where a clear began: handed in again, it leaves alone what came in since.
create or replace function deferred.__message_clear(queue text, to_id bigint, batch integer,
    out status integer, out cleared bigint, out upto bigint, out more boolean)
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
    upto := coalesce($2, deferred.__message_last_id());
    if not exists (select from deferred.__deferred_queue q
                   where q.name = $1 and (q.removed_at is null or q.clearing_to is not null)) then
        status := 1;
        more := false;
        return;
    end if;
    status := 0;
    select c.cleared, c.more into cleared, more from deferred.__message_clear_some($1, upto, $3) c;
    if not more then
        update deferred.__deferred_queue q set clearing_to = null
        where q.name = $1 and q.clearing_to <= upto;
    end if;
end
$$;
comment on function deferred.__message_clear is
    'one step of clearing a queue; call it until more is false';
grant execute on function deferred.__message_clear to deferred_http;
