create or replace function deferred.__at_most(queue text, fn text, concurrency_key text) returns boolean
language sql stable
as $$
    select $3 is not null
        or exists (select from deferred.__deferred_queue q where q.name = $1 and q.max_running is not null)
        or exists (select from deferred.__deferred_function f where f.name = $2 and f.max_running is not null)
$$;
comment on function deferred.__at_most(text, text, text) is 'true: of such jobs no more than so many may run at once';
grant execute on function deferred.__at_most(text, text, text) to deferred_worker;
