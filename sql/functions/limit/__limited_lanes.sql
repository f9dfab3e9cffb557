-- Adds the lanes of a queue to what a claim under limits looks at. A lane holds the ready jobs of
-- one function that have no key. Lanes whose function the worker does not know are listed apart.
create or replace function deferred.__limited_lanes(
    w deferred.__limited, p_queue text, p_known text[])
returns deferred.__limited
language plpgsql
as $$
declare
    v_most constant integer := 500;  -- lanes met, in all queues
    v_fn   text collate "C" := '';
begin
    loop
        select x.fn into v_fn from deferred.__deferred_hot x
        where x.queue = p_queue and x.limited and not x.unknown and x.concurrency_key is null
          and x.due_at is null and x.fn > v_fn
        order by x.unknown, x.queue, x.fn limit 1;
        exit when not found or (p_known is null and cardinality(w.lane_fns) >= v_most);
        w.steps := w.steps + 1;
        if v_fn <> all (p_known) then
            w.strange_queues := w.strange_queues || p_queue;
            w.strange_fns := w.strange_fns || v_fn;
            exit when cardinality(w.strange_fns) >= v_most;
            continue;
        end if;
        continue when w.lane_queues[1] = p_queue and v_fn = w.lane_fns[1];  -- the one tried
        w.lane_queues := w.lane_queues || p_queue;
        w.lane_fns := w.lane_fns || v_fn;
    end loop;
    return w;
end
$$;
grant execute on function deferred.__limited_lanes to deferred_worker;
