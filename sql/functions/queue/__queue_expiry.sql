create or replace function deferred.__queue_expiry(queue text,
                                                   since timestamptz) returns timestamptz
language sql stable
as $$
    select $2 + q.ttl_ms * interval '1 millisecond' from deferred.__deferred_queue q
    where q.name = $1
$$;
comment on function deferred.__queue_expiry(text, timestamptz) is
    'when a job without an expiry of its own expires';
