-- Compares minutes from p_from on with the log, and sums again those of which the log has more;
-- part of deferred.__fold(), which holds the lock. Stops after about p_rows attempts, but not in
-- the first minute unless that has more than p_most, and at p_to. Returns how far it came.
create or replace function deferred.__fold_check(p_from timestamptz, p_to timestamptz,
                                                 p_rows bigint, p_most bigint) returns timestamptz
language plpgsql
as $$
declare
    v_to  timestamptz;
    v_sum bigint;
begin
    select coalesce(min(m.at) filter (where m.total > p_rows and m.at > p_from), p_to),
           coalesce(max(m.total) filter (where m.total <= p_rows or m.at = p_from), 0)
    into v_to, v_sum
    from (select s.at, sum(s.ok + s.failed + s.crashed + s.timeout + s.interrupted + s.superseded +
                           s.lost + s.cancelled + s.expired + s.snoozed)
                       over (order by s.at) as total
          from deferred.__deferred_series x
          join deferred.__deferred_sum s on s.span = 1 and s.series = x.id
          where (x.queue, x.fn, x.plugin) = ('*', '*', '*') and s.at >= p_from and s.at < p_to) m;
    if v_sum > p_most then
        return p_from;
    end if;
    if (select count(*) from deferred.__deferred_log l where l.finished_at >= p_from
        and l.finished_at < v_to) > v_sum then
        perform deferred.__fold_slice(p_from, v_to, true, 0, 0);
    end if;
    return v_to;
end
$$;
