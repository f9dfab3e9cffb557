-- figures: sums of the log.
-- $1 span: 1 minutes, 60 hours, 0 since ever (int4)
-- $2 queue, $3 function: * for the sums over all, NULL for each (text); $4 1: by build, 0: sums over all builds (int4)
-- $5 from so many seconds before now (int8)   $6 for so many seconds (int8)
-- returns one row a minute or hour and series, in that order: its begin in seconds since 1970 (int8), queue, function, plugin (text), attempts by outcome in
--   the order of lib/base/job.h (10 int8), dead, arrived, wait_us, run_us, cpu_us, max_rss_kb (int8), histograms of wait and run (bigint[][] as text), number of the series (int4);
--   before them one with NULL for a queue: now, folded to, exact to in seconds since 1970
-- locks: none. Index: __deferred_series_queue_fn_plugin_key, or all series; __deferred_minute_pkey and its like
with moment as materialized (
    select now() - $5::int8 * interval '1 second' as first, now() + ($6::int8 - $5) * interval '1 second' as last),
series as materialized (
    select s.id, s.queue, s.fn, s.plugin from deferred.__deferred_series s
    where (case when $2::text is null then s.queue <> '*' else s.queue = $2 end)
      and (case when $3::text is null then s.fn <> '*' else s.fn = $3 end)
      and (s.plugin <> '*')::int4 = $4::int4)
select extract(epoch from now())::int8 as at, null::text as queue, null::text as fn, null::text as plugin,
       extract(epoch from f.folded_to)::int8, extract(epoch from f.exact_to)::int8, 0::int8, 0::int8, 0::int8, 0::int8, 0::int8, 0::int8, 0::int8,
       0::int8, 0::int8, 0::int8, 0::int8, 0::int8, 0::int8, 0::int8, '{}'::text, '{}'::text, 0
from deferred.__deferred_folded f
union all
(select case when $1::int4 = 0 then 0 else extract(epoch from x.at) end::int8, s.queue, s.fn, s.plugin,
        x.ok, x.failed, x.crashed, x.timeout, x.interrupted, x.superseded, x.lost, x.cancelled, x.expired, x.snoozed,
        x.dead, x.arrived, x.wait_us, x.run_us, x.cpu_us, x.max_rss_kb, x.wait::text, x.run::text, s.id
 from series s cross join moment m
 cross join lateral (
    select y.* from deferred.__deferred_sum y
    where y.span = $1 and y.series = s.id and ($1 = 0 or (y.at >= m.first and y.at < m.last)) offset 0) x
 order by x.at, s.queue, s.fn, s.plugin)
