create or replace function deferred.__limited_queues(queues text[], p_most integer)
returns table (name text)
language plpgsql stable rows 10
as $$
declare
    v_name text collate "C" := '';
begin
    if not deferred.__limited_jobs(queues) then return; end if;
    if queues is not null then
        return query select distinct n from unnest(queues) n
        where exists (select from deferred.__deferred_limited l where l.queue = n);
        return;
    end if;
    for i in 1..p_most loop
        v_name := deferred.__limited_next(v_name);
        exit when v_name is null;
        name := v_name;
        return next;
    end loop;
end
$$;
comment on function deferred.__limited_queues is
    'queues served that have or may have limited jobs; where all are served, the first p_most';
grant execute on function deferred.__limited_queues to deferred_worker;
