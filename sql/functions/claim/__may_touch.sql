-- A token is a member of no role. The API lets it act on jobs of others: deferred.__api_job_of().
create or replace function deferred.__may_touch(owner name) returns boolean
language sql stable
as $$
    select owner = deferred.__actor()
        or case when deferred.__acting_token() is not null
                then current_setting('deferred.token_reach', true) = 'all'
                else pg_has_role(deferred.__actor(), 'deferred_owner', 'member')
                     or pg_has_role(deferred.__actor(), 'deferred_worker', 'member')
                     or pg_has_role(deferred.__actor(), 'deferred_operator', 'member') end
$$;
comment on function deferred.__may_touch(name) is
    'true for who deferred a job, for workers, operators and administrators';
grant execute on function deferred.__may_touch(name) to deferred_worker;
