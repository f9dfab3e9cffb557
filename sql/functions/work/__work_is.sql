-- True: the worker is a program that claims by SQL.
create or replace function deferred.__work_is(worker bigint) returns boolean
language sql stable
as $$
    select exists (select from deferred.__deferred_worker w where w.id = $1 and w.mode = 'sql')
$$;
