create or replace function deferred.__limited_jobs(queues text[]) returns boolean
language plpgsql stable
as $$
begin
    if queues is null then
        return (select q.limited_jobs from deferred.__deferred_queue q order by q.limited_jobs desc limit 1);
    end if;
    -- One that has no row was removed, or is to come: its jobs may be limited.
    return exists (select from unnest(queues) n left join lateral (select x.limited_jobs from deferred.__deferred_queue x where x.name = n limit 1) q on true
                   where q.limited_jobs is not false);
end
$$;
comment on function deferred.__limited_jobs is 'true: some of the queues served, NULL: of all, may have limited jobs';
grant execute on function deferred.__limited_jobs to deferred_worker;
