-- The lanes a claim asks, in order: those that are known to have jobs, and perhaps others. Higher
-- priorities first. Within one, queues share by their weights, from a random start, which has
-- claims of one job shared as well. Each lane comes in three rounds: see deferred.__claim().
--
-- Of all lanes one claim asks at most v_most, and the next one goes on where it ended. The first
-- begins at a random queue. deferred.__lanes() says how. Lanes that are known are asked too, so
-- that they stay known.
--
-- Lanes hand on what they have done by settings of the transaction, for the rows they return are
-- out of their reach: jobs still wanted (deferred.claim_left), bytes of params taken (claim_bytes),
-- leases on one job alone still to be had (claim_alone), jobs that may still be put apart
-- (claim_spare), whether a lane may have more (claim_more), whether this claim holds the lock of
-- one (claim_lock: held, or busy: it met one that was locked), time for looking in vain
-- (claim_look), jobs left (claim_waiting), the round, where lanes are left that it does not ask
-- (claim_round).
create or replace function deferred.__claim_lanes(p_queues text[], p_n integer, p_seed bigint,
                                                  p_lane_queues text[], p_lane_priorities integer[],
                                                  p_look boolean,
    p_alone integer, p_round text, p_known text[])
returns table (queue text, priority integer, share double precision, round integer)
language plpgsql rows 3
as $$
#variable_conflict use_column
declare
    v_most   constant integer := 100;
    v_round  text := p_round;
    v_from   text;
    v_queues text[];
    v_priorities integer[];
    v_said text;
begin
    -- Assigned, each costs a tenth of what it does as a statement.
    v_said := set_config('synchronous_commit', 'off', true);
    v_said := set_config('deferred.claim_left', p_n::text, true);
    v_said := set_config('deferred.claim_bytes', '0', true);
    v_said := set_config('deferred.claim_alone', p_alone::text, true);
    v_said := set_config('deferred.claim_spare', '4000', true);
    v_said := set_config('deferred.claim_more', '', true);
    v_said := set_config('deferred.claim_lock', '', true);
    v_said := set_config('deferred.claim_waiting', '0', true);
    v_said := set_config('deferred.claim_look', '0', true);
    v_said := set_config('deferred.claim_round', '', true);
    if not p_look and cardinality(p_lane_queues) = 1 then
        -- The usual one, which shares with nobody.
        perform from deferred.__deferred_queue q
        where q.name = p_lane_queues[1] and deferred.__is_paused(q);
        if not found then
            queue := p_lane_queues[1];
            priority := p_lane_priorities[1];
            share := 1;
            round := 1;
            return next;
            round := 3;
            return next;
        end if;
        return;
    end if;
    if p_look then
        loop
            select array_agg(l.queue), array_agg(l.priority) into v_queues, v_priorities
            from deferred.__lanes(p_queues, v_most, v_round) l;
            exit when coalesce(cardinality(v_queues), 0) < v_most or v_round is not null;
            v_round := coalesce((select q from unnest(p_queues) q
                                 order by hashtextextended(q, p_seed) limit 1),
                                deferred.__any_queue(p_seed)) || ' 32768';
        end loop;
        if v_round is not null then
            perform deferred.__lanes_aside(v_queues, v_priorities, p_known);
        end if;
        if cardinality(v_queues) = v_most then
            v_from := case when v_round like '%/%' then split_part(v_round, '/', 2)
                           else v_round end;
            -- Else it was the last one.
            if v_from <> v_queues[v_most] || ' ' || v_priorities[v_most] then
                v_said := set_config('deferred.claim_round',
                    v_queues[v_most] || ' ' || v_priorities[v_most] || '/' || v_from, true);
            end if;
        end if;
    end if;
    return query
    select s.queue, s.priority,
           s.weight / sum(s.weight) over (partition by s.priority, r.round
                                          order by s.turn desc rows unbounded preceding),
           r.round
    from (select l.queue::text, l.priority::integer, coalesce(q.weight, 1) as weight,
                 -ln((1 + (hashtextextended(l.queue,
                                            p_seed) & 1048575)) / 1048577.0::float8) /
                                                coalesce(q.weight, 1) as turn
          from (select u.queue collate "C", u.priority
                from unnest(p_lane_queues, p_lane_priorities) u(queue, priority)
                union
                select u.queue collate "C", u.priority
                from unnest(v_queues, v_priorities) u(queue, priority)) l(queue, priority)
          left join lateral (select x.weight, deferred.__is_paused(x) as paused
                             from deferred.__deferred_queue x where x.name = l.queue
                             limit 1) q on true
          where q.paused is not true) s
    cross join generate_series(1, 3) r(round)
    order by r.round = 3, s.priority desc, r.round, s.turn;
    v_said := set_config('deferred.claim_look', (clock_timestamp() - statement_timestamp())::text,
                         true);
end
$$;
comment on function deferred.__claim_lanes is
    'the lanes a claim asks, in order, with their share of what is left then; part of '
    'sql/queries/claim/job_claim.sql';
grant execute on function deferred.__claim_lanes to deferred_worker;
