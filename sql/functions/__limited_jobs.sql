create or replace function deferred.__limited_jobs(queues text[]) returns boolean
language plpgsql stable
as $$
begin
    if queues is null then
        return (select q.limited_jobs from deferred.__deferred_queue q order by q.limited_jobs desc limit 1);
    end if;
    return exists (select from unnest(queues) n cross join lateral (select from deferred.__deferred_queue q where q.name = n and q.limited_jobs limit 1) q);
end
$$;
comment on function deferred.__limited_jobs is 'true: some of the queues served, NULL: of all, may have limited jobs';
grant execute on function deferred.__limited_jobs to deferred_worker;
