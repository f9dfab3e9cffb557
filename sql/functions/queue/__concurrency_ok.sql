create or replace function deferred.__concurrency_ok(key text, n integer) returns boolean
language sql immutable
as $$
    select not coalesce(length(key) not between 1 and 1000 or n not between 1 and 10000
                        or (key is null and n is not null), false)
$$;
comment on function deferred.__concurrency_ok(text, integer) is
    'true if these options of a job are in range';
