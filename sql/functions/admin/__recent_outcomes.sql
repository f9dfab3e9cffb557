-- Counts the attempts of the last hour by outcome, and reads at most p_most of them. They are found
-- by time, because after a purge new rows lie on pages anywhere. The planner would read the whole
-- partition for the first of them, where it believes them to be many.
create or replace function deferred.__recent_outcomes(p_most bigint)
returns table (outcome text, attempts bigint, dead bigint, more boolean)
language sql stable set enable_seqscan = off set enable_bitmapscan = on
as $$
    select r.outcome, count(*), count(*) filter (where r.final
                                                 and deferred.state(r.outcome) = 'dead'),
                                                 sum(count(*)) over () > p_most
    from (select l.outcome, l.final from deferred.__deferred_log l
          where l.finished_at > now() - interval '1 hour' limit p_most + 1) r
    group by r.outcome
$$;
grant execute on function deferred.__recent_outcomes to deferred_worker, deferred_viewer;
