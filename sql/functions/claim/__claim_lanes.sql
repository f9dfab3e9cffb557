-- The lanes that a claim asks, in order. Higher priorities come first. Within one, queues share by
-- their weights, from a random start, so that claims of one job are shared as well. Each lane comes
-- in three rounds, see deferred.__claim().
create or replace function deferred.__claim_lanes(
    p_queues text[], p_priorities integer[], p_seed bigint)
returns deferred.__lane[]
language plpgsql
as $$
begin
    if cardinality(p_queues) = 1 then
        -- The usual one, which shares with nobody. The statement costs 4 % of a small claim.
        return array[row(p_queues[1], p_priorities[1], 1, 1),
                     row(p_queues[1], p_priorities[1], 1, 3)]::deferred.__lane[];
    end if;
    return array(
        select row(s.queue, s.priority,
                   s.weight / sum(s.weight) over (partition by s.priority, r.round
                                                  order by s.turn desc rows unbounded preceding),
                   r.round)::deferred.__lane
        from (select l.queue, l.priority, coalesce(q.weight, 1) as weight,
                     -ln((1 + (hashtextextended(l.queue, p_seed) & 1048575)) / 1048577.0::float8)
                         / coalesce(q.weight, 1) as turn
              from (select distinct u.queue collate "C", u.priority
                    from unnest(p_queues, p_priorities) u(queue, priority)) l(queue, priority)
              left join lateral (select x.weight, deferred.__is_paused(x) as paused
                                 from deferred.__deferred_queue x
                                 where x.name = l.queue limit 1) q on true
              where q.paused is not true) s
        cross join generate_series(1, 3) r(round)
        order by r.round = 3, s.priority desc, r.round, s.turn);
end
$$;
grant execute on function deferred.__claim_lanes to deferred_worker;
