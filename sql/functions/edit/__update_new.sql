-- A job as deferred.update() makes it. A message that moves to a queue with a function becomes a
-- call. The label of a mail that was given none follows its subject.
create or replace function deferred.__update_new(d deferred.__deferred, p_changes jsonb,
                                                 p_params json) returns deferred.__deferred
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    n deferred.__deferred := jsonb_populate_record(d, p_changes);
begin
    n.params := coalesce(p_params, d.params);
    if n.run_at = '-infinity' then n.run_at := null; end if;
    if n.queue <> d.queue and d.fn is null then
        n.fn := (select x.fn from deferred.__deferred_queue x where x.name = n.queue);
    end if;
    if n.fn = 'send_mail' and (n.label is null or (not p_changes ? 'label'
            and n.label = deferred.__subject(d.params))) then
        n.label := deferred.__subject(n.params);
    end if;
    return n;
end
$$;
comment on function deferred.__update_new is 'part of deferred.update(): the job as it will be';
