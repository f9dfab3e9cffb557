create or replace function deferred.__message_queues(account text, prefix text, from_name text,
                                                     n integer) returns table (name text,
                                                         metadata json)
language sql stable security definer set search_path = pg_catalog, pg_temp
as $$
    select substr(q.name, length($1) + 2), deferred.__message_metadata(q.metadata, q.fn,
        q.max_dequeue)
    from deferred.__deferred_queue q
    where q.name >= $1 || '.' || greatest(coalesce($2, '') collate "C",
                                          coalesce($3, '') collate "C") and q.name < $1 || '/'
      and starts_with(q.name, $1 || '.' || coalesce($2, '')) and q.removed_at is null
      and substr(q.name, length($1) + 2) ~ '^[a-z0-9](-?[a-z0-9])*$'
      and length(q.name) - length($1) - 1 between 3 and 63
    order by q.name limit $4
$$;
comment on function deferred.__message_queues is
    'queues of an account, in the order of their names, without its name';
grant execute on function deferred.__message_queues to deferred_http;
