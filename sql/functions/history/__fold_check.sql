-- Compares minutes from p_from on with the log, and sums those anew of which the log has more; part
-- of deferred.__fold(), whose lock is held. Goes so far as about p_rows attempts were summed, a
-- minute at least unless it has more than p_most, and not beyond p_to. Returns how far it came.
create or replace function deferred.__fold_check(p_from timestamptz, p_to timestamptz,
                                                 p_rows bigint, p_most bigint) returns timestamptz
language plpgsql
as $$
declare
    v_all integer := (select s.id from deferred.__deferred_series s
                      where (s.queue, s.fn, s.plugin) = ('*', '*', '*'));
    v_to  timestamptz;
    v_sum bigint;
begin
    select coalesce(min(m.at) filter (where m.total > p_rows), p_to),
           coalesce(max(m.total) filter (where m.total <= p_rows), 0) into v_to, v_sum
    from (select s.at, sum(s.ok + s.failed + s.crashed + s.timeout + s.interrupted + s.superseded +
                           s.lost + s.cancelled + s.expired + s.snoozed)
                               over (order by s.at) as total
          from deferred.__deferred_sum s where s.span = 1 and s.series = v_all and s.at >= p_from
              and s.at < p_to) m;
    if v_to = p_from then
        v_to := p_from + interval '1 minute';
        select s.ok + s.failed + s.crashed + s.timeout + s.interrupted + s.superseded + s.lost +
            s.cancelled + s.expired + s.snoozed into v_sum from deferred.__deferred_sum s
                where s.span = 1 and s.series = v_all and s.at = p_from;
        if v_sum > p_most then
            return p_from;
        end if;
    end if;
    if (select count(*) from deferred.__deferred_log l where l.finished_at >= p_from
        and l.finished_at < v_to) > v_sum then
        perform deferred.__fold_slice(p_from, v_to, true, 0, 0);
    end if;
    return v_to;
end
$$;
comment on function deferred.__fold_check is
    'sums minutes anew of which something was recorded late; part of deferred.__fold()';
