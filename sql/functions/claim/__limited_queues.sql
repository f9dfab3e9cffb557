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
          and not exists (select from deferred.__deferred_queue q where q.name = n and deferred.__is_paused(q));
        return;
    end if;
    loop
        v_name := deferred.__limited_next(v_name);
        exit when v_name is null;
        name := v_name;
        if not exists (select from deferred.__deferred_queue q where q.name = v_name and deferred.__is_paused(q)) then return next; end if;
    end loop;
end
$$;
comment on function deferred.__limited_queues is 'queues that are served, not paused, and have or may have limited jobs that are not delayed';
grant execute on function deferred.__limited_queues to deferred_worker;
