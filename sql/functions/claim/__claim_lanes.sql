-- The lanes a claim asks, in order: those that are known to have jobs, or all. Higher priorities first; within one, queues share by their
-- weights, from a random start, which has claims of one job shared as well. Each lane comes in three rounds: see deferred.__claim().
--
-- Lanes hand on what they have done by settings of the transaction, for the rows they return are out of their reach: jobs still wanted
-- (deferred.claim_left), bytes of params taken (claim_bytes), leases on one job alone still to be had (claim_alone), jobs that may still be put apart (claim_spare), whether a lane may have more (claim_more), whether this claim holds the lock of
-- one (claim_lock: held, or busy: it met one that was locked), time for looking in vain (claim_look), jobs left
-- (claim_waiting).
create or replace function deferred.__claim_lanes(p_queues text[], p_n integer, p_seed bigint, p_lane_queues text[], p_lane_priorities integer[], p_look boolean,
    p_alone integer)
returns table (queue text, priority integer, share double precision, round integer)
language plpgsql rows 3
as $$
#variable_conflict use_column
declare
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
    if not p_look and cardinality(p_lane_queues) = 1 then
        -- The usual one, which shares with nobody.
        perform from deferred.__deferred_queue q where q.name = p_lane_queues[1] and q.paused;
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
    return query
    select s.queue, s.priority, s.weight / sum(s.weight) over (partition by s.priority, r.round order by s.turn rows between current row and unbounded following),
           r.round
    from (select l.queue::text, l.priority::integer, coalesce(q.weight, 1) as weight,
                 -ln((1 + (hashtextextended(l.queue, p_seed) & 1048575)) / 1048577.0::float8) / coalesce(q.weight, 1) as turn
          from (select u.queue, u.priority from unnest(p_lane_queues, p_lane_priorities) u(queue, priority) where not p_look
                union all
                select f.queue, f.priority from deferred.__lanes(case when p_look then p_queues else '{}' end) f where p_look) l
          left join lateral (select x.* from deferred.__deferred_queue x where x.name = l.queue limit 1) q on true
          where q.paused is not true) s
    cross join generate_series(1, 3) r(round)
    order by r.round = 3, s.priority desc, r.round, s.turn;
    v_said := set_config('deferred.claim_look', (clock_timestamp() - statement_timestamp())::text, true);
end
$$;
comment on function deferred.__claim_lanes is 'the lanes a claim asks, in order, with their share of what is left then; part of sql/queries/claim/job_claim.sql';
grant execute on function deferred.__claim_lanes to deferred_worker;
