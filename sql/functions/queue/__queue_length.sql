create or replace function deferred.__queue_length(queue text, stop integer) returns bigint
language plpgsql stable
as $$
#variable_conflict use_variable
begin
    return (select count(*) from (select from deferred.__deferred_hot h
                                  where h.queue = queue and h.bounded limit stop) x);
end
$$;
comment on function deferred.__queue_length(text, integer) is
    'hot jobs of a queue that has a max_length, counted as far as stop';
