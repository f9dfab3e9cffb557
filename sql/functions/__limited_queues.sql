-- One step through each of the two indexes for every queue that has such jobs.
create or replace function deferred.__limited_queues(queues text[]) returns table (name text)
language plpgsql stable rows 10
as $$
declare
    v_name text collate "C" := '';
begin
    if not deferred.__limited_jobs(queues) then return; end if;
    if queues is not null then
        return query select distinct n from unnest(queues) n
        where exists (select from deferred.__deferred_limited l where l.queue = n)
          and not exists (select from deferred.__deferred_queue q where q.name = n and q.paused);
        return;
    end if;
    loop
        select least((select h.queue from deferred.__deferred_hot h
                      where h.queue > v_name and h.limited and h.due_at is null and h.concurrency_key is null
                      order by h.queue, h.fn limit 1),
                     (select h.queue from deferred.__deferred_hot h
                      where h.queue > v_name and h.concurrency_key is not null
                      order by h.queue, hashtextextended(h.concurrency_key, 0) limit 1)) into v_name;
        exit when v_name is null;
        name := v_name;
        if not exists (select from deferred.__deferred_queue q where q.name = v_name and q.paused) then return next; end if;
    end loop;
end
$$;
comment on function deferred.__limited_queues is 'queues that are served, not paused, and have or may have limited jobs that are not delayed';
grant execute on function deferred.__limited_queues to deferred_worker;
