create or replace function deferred.__queue_length(queue text, stop integer) returns bigint
language sql stable
as $$
    select count(*) from (select from deferred.__deferred_hot h where h.queue = $1 and h.bounded
                          limit $2) x
$$;
comment on function deferred.__queue_length(text, integer) is
    'hot jobs of a queue that has a max_length, counted as far as stop';
