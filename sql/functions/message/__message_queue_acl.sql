create or replace function deferred.__message_queue_acl(queue text, acl json) returns integer
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
    update deferred.__deferred_queue q set acl = $2 where q.name = $1 and q.removed_at is null;
    return case when found then 0 else 1 end;
end
$$;
comment on function deferred.__message_queue_acl(text, json) is
    'replaces the stored access policies of a queue; NULL: none';

create or replace function deferred.__message_queue_acl(queue text, out status integer,
                                                        out acl json)
language sql stable security definer set search_path = pg_catalog, pg_temp
as $$
    select case when q.name is null then 1 else 0 end, q.acl
    from (select) x left join deferred.__deferred_queue q on q.name = $1 and q.removed_at is null
$$;
comment on function deferred.__message_queue_acl(text) is 'the stored access policies of a queue';
grant execute on function deferred.__message_queue_acl(text) to deferred_http;
grant execute on function deferred.__message_queue_acl(text, json) to deferred_http;
