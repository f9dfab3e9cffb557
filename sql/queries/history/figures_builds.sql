-- figures_builds: sums by build of the last two days, of the functions that ran in more than one
-- build in that time.
-- params: none
-- returns: as figures
-- Locks: none. Index: all series; __deferred_sum_pkey: two rows of a build of a function that has
--   others, all hours where there is more than one
with moment as materialized (
    select f.*, now() - interval '2 days' as first from deferred.__deferred_folded f),
build as materialized (
    select s.fn, s.plugin, array_agg(s.id) as ids from deferred.__deferred_series s
    where s.queue <> '*' and s.fn not in ('*', '', '+') and s.plugin not in ('*', '')
    group by s.fn, s.plugin),
ran as materialized (
    select b.*, count(*) over (partition by b.fn) as builds
    from build b
    where b.fn = any (array(select x.fn from build x group by x.fn having count(*) > 1))
      and exists (select from moment m cross join unnest(b.ids) u(series)
                  cross join lateral (select from deferred.__deferred_sum y
                                      where y.span = 60 and y.series = u.series and y.at >= m.first
                                      limit 1) y))
select * from deferred.__figures_state
union all
(select extract(epoch from x.at)::int8, s.queue, s.fn, s.plugin,
        x.ok, x.failed, x.crashed, x.timeout, x.interrupted, x.superseded, x.lost, x.cancelled,
        x.expired, x.snoozed,
        x.dead, x.arrived, x.wait_us, x.run_us, x.cpu_us, x.max_rss_kb, '{}'::text, x.run::text,
        s.id
 from ran r cross join moment m cross join unnest(r.ids) u(series)
 join deferred.__deferred_series s on s.id = u.series
 cross join lateral (select y.* from deferred.__deferred_sum y
                     where y.span = 60 and y.series = u.series and y.at >= m.first offset 0) x
 where r.builds > 1
 order by x.at, s.queue, s.fn, s.plugin)
