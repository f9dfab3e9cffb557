-- doctor_intervals: functions that may take longer than it is from one start to the next, by the
-- limit they ask for.
-- params: none
-- returns: fn text, timeout_ms int8, instance text, gap_s int8
-- Rows: at most 5
-- Locks: none. Index: primary key of __deferred_worker, from its end; all of __deferred_offer. A
--   start with nothing due is not seen, so it is the interval at most
with line as materialized (
    select s.name, s.host, percentile_disc(0.5) within group (order by s.gap_s) as gap_s
    from (select split_part(w.instance, '#', 1) as name, w.host,
                 extract(epoch from w.started_at - lag(w.started_at)
                         over (partition by split_part(w.instance, '#', 1)
                               order by w.id))::int8 as gap_s
          from (select x.* from deferred.__deferred_worker x order by x.id desc limit 2000) w) s
    where s.gap_s > 0
    group by s.name, s.host having count(*) >= 4)
select distinct f.fn, f.timeout_ms, l.name as instance, l.gap_s
from line l
join deferred.__deferred_offer o on o.host = l.host
cross join lateral unnest(o.fn, o.plugin, o.timeout_ms) f(fn, plugin, timeout_ms)
where f.timeout_ms > l.gap_s * 1000 and not starts_with(f.fn, split_part(f.plugin, ' ', 1) || '.')
order by f.timeout_ms desc, f.fn
limit 5
