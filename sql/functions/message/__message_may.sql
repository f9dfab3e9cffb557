create or replace function deferred.__message_may(queue text, fn text) returns boolean
language sql stable
as $$
    select coalesce(bool_or((g.queue is null or g.queue = $1)
                            and (g.fn is null or $2 is null or g.fn = $2)), true)
    from deferred.__deferred_grant g where g.role in (deferred.__actor(), session_user)
$$;
comment on function deferred.__message_may(text, text) is
    'true if the acting role may have messages of a queue become calls to fn';
