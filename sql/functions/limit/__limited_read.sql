-- Finds the jobs that a claim under limits chooses from: lanes, and jobs with a key. Nothing is
-- locked yet, so the claim looks at each of them again under the locks of their limits.
--
-- A claim of all queues takes a bounded number of steps through indexes, and the next claim goes on
-- with the next queue. The round is "AT/FROM": queues up to AT were looked at, in a round that
-- began behind FROM. Without FROM a round begins behind AT. A worker that has not begun a round
-- begins at a random queue. Otherwise a worker that begins again each time would never reach the
-- last queues.
create or replace function deferred.__limited_read(
    p_queues text[], p_n integer, p_known text[], p_seed bigint, p_round text,
    p_run integer)
returns deferred.__limited
language plpgsql
as $$
declare
    v_steps_most constant integer := least(600, 60 + 4 * p_n);
    w        deferred.__limited;
    v_at     text collate "C";
    v_from   text collate "C";  -- NULL: the round has ended
    v_over   boolean;           -- the round has come to the first queue again
    v_served text[];            -- of the queues served those that are looked at
    v_unknown boolean;          -- jobs of unknown functions are set aside
    v_turn   integer := 0;
    v_queue  text collate "C";
begin
    w.steps := 0;
    w.lane_queues := '{}';
    w.lane_fns := '{}';
    w.key_tids := '{}';
    w.key_queues := '{}';
    w.key_hashes := '{}';
    w.key_at := '{}';
    w.key_places := '{}';
    w.wide := false;
    w.bytes := 0;
    if p_queues is null then
        v_at := coalesce(split_part(p_round, '/', 1),
                         deferred.__any_queue(hashint8extended(p_seed, 0)));
        v_from := case when p_round like '%/%' then split_part(p_round, '/', 2) else v_at end;
        v_over := v_at < v_from;
    end if;
    select array(select distinct u from unnest(p_queues) u
                 where exists (select from deferred.__deferred_limited l where l.queue = u)
                   and not exists (select from deferred.__deferred_queue q
                                   where q.name = u and deferred.__is_paused(q))),
           p_known is null
           and exists (select from deferred.__deferred_hot h
                       where h.unknown and h.limited and h.due_at is null
                         and h.concurrency_key is null limit 1)
    into v_served, v_unknown;
    if v_unknown then
        w := deferred.__limited_tried(w, p_queues, p_seed);
    end if;
    loop
        if p_queues is not null then
            v_turn := v_turn + 1;
            exit when v_turn > cardinality(v_served);
            v_queue := v_served[v_turn];
        else
            if v_over and v_at >= v_from then
                v_from := null;  -- all were looked at
                exit;
            end if;
            exit when w.steps >= v_steps_most;
            v_queue := deferred.__limited_next(v_at);
            w.steps := w.steps + 1;
            if v_queue is null or (v_over and v_queue > v_from) then
                v_at := case when v_over then v_from else '' end;
                v_over := true;
                continue;
            end if;
            v_at := v_queue;
            continue when exists (select from deferred.__deferred_queue q
                                  where q.name = v_queue and deferred.__is_paused(q));
        end if;
        w := deferred.__limited_lanes(w, v_queue, p_known);
        w := deferred.__limited_keys(w, v_queue, p_n, p_known, p_seed, p_run);
    end loop;
    if w.strange_fns is not null then
        perform deferred.__limited_aside(w.strange_queues, w.strange_fns);
    end if;
    w.more := v_from is not null;
    w.round := v_at || case when w.more then '/' || v_from else '' end;
    w.idle := w.lane_fns = '{}' and w.key_tids = '{}';
    return w;
end
$$;
grant execute on function deferred.__limited_read to deferred_worker;
