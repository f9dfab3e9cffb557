create or replace function deferred.__is_limited(queue text, fn text,
                                                 concurrency_key text) returns boolean
language sql stable
as $$
    select $3 is not null
        or exists (select from deferred.__deferred_queue q
                   where q.name = $1 and coalesce(q.max_running, q.rate) is not null)
        or exists (select from deferred.__deferred_function f where f.name = $2)
$$;
comment on function deferred.__is_limited(text, text, text) is
    'true: a limit may hold back such a job';
