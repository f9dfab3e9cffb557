-- The lanes that may have jobs, at most 100 of them, and where the next claim goes on: see
-- deferred.__lanes(). Lanes that the worker knows are among them, so that they stay known. The
-- first claim begins at a random queue.
create or replace function deferred.__lanes_round(
    p_queues text[], p_round text, p_seed bigint, p_known text[],
    out queues text[], out priorities integer[], out round text)
language plpgsql
as $$
declare
    v_most constant integer := 100;
    v_at   text := p_round;
    v_from text;
begin
    loop
        select array_agg(l.queue), array_agg(l.priority) into queues, priorities
        from deferred.__lanes(p_queues, v_most, v_at) l;
        exit when coalesce(cardinality(queues), 0) < v_most or v_at is not null;
        v_at := coalesce((select q from unnest(p_queues) q
                          order by hashtextextended(q, p_seed) limit 1),
                         deferred.__any_queue(p_seed)) || ' 32768';
    end loop;
    if v_at is not null then
        perform deferred.__lanes_aside(queues, priorities, p_known);
    end if;
    if cardinality(queues) = v_most then
        v_from := case when v_at like '%/%' then split_part(v_at, '/', 2) else v_at end;
        -- Else it was the last one.
        if v_from <> queues[v_most] || ' ' || priorities[v_most] then
            round := queues[v_most] || ' ' || priorities[v_most] || '/' || v_from;
        end if;
    end if;
end
$$;
grant execute on function deferred.__lanes_round to deferred_worker;
