create or replace function deferred.__limited_jobs(queues text[]) returns boolean
language plpgsql stable
as $$
begin
    if queues is null then
        return exists (select from deferred.__deferred_limited);
    end if;
    return exists (select from deferred.__deferred_limited l where l.queue = any (queues));
end
$$;
comment on function deferred.__limited_jobs is
    'true: some of the queues served, NULL: of all, may have limited jobs';
grant execute on function deferred.__limited_jobs to deferred_worker;
