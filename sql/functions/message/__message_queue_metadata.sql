create or replace function deferred.__message_queue_metadata(queue text,
    metadata json) returns integer
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    m record;
begin
    select * into m from deferred.__message_metadata_read($1, $2);
    if not m.ok then return 8; end if;
    if not deferred.__message_may($1, m.fn) then return 10; end if;
    if m.fn is not null and not deferred.__account_may($1, m.fn) then return 11; end if;
    update deferred.__deferred_queue q set fn = m.fn, max_dequeue = m.max_dequeue, metadata = m.own
    where q.name = $1 and q.removed_at is null;
    return case when found then 0 else 1 end;
end
$$;
comment on function deferred.__message_queue_metadata(text, json) is
    'replaces the metadata of a queue';
grant execute on function deferred.__message_queue_metadata(text, json) to deferred_http;
