create or replace function deferred.__may_touch(owner name) returns boolean
language sql stable
as $$
    select owner = deferred.__actor()
        or pg_has_role(deferred.__actor(), 'deferred_owner', 'member')
        or pg_has_role(deferred.__actor(), 'deferred_worker', 'member')
        or pg_has_role(deferred.__actor(), 'deferred_operator', 'member')
$$;
comment on function deferred.__may_touch(name) is
    'true for who deferred a job, for workers, operators and administrators';
grant execute on function deferred.__may_touch(name) to deferred_worker;
