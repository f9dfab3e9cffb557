-- figures: sums of the log.
-- params: span int4, queue text, fn text, by_build int4, from_s int8, for_s int8
-- returns: at int8, queue text?, fn text, plugin text, ok int8, failed int8, crashed int8,
--   timeout int8, interrupted int8, superseded int8, lost int8, cancelled int8, expired int8,
--   snoozed int8, dead int8, arrived int8, wait_us int8, run_us int8, cpu_us int8, max_rss_kb int8,
--   wait_histogram text, run_histogram text, series int4
-- $1 span: 1 minutes, 60 hours, 0 since ever; $2 queue, $3 function: * for the sums over all, NULL
--   for each; $4 1: by build, 0: sums over all builds; $5 from so many seconds before now; $6 for
--   so many seconds.
-- rows: one row a minute or hour and series, in that order: its begin in seconds since 1970, queue,
--   function, plugin, attempts by outcome in the order of lib/base/job.h (10 int8), dead, arrived,
--   wait_us, run_us, cpu_us, max_rss_kb, histograms of wait and run (bigint[][] as text), number of
--   the series; before them one with NULL for a queue: now, folded to, exact to in seconds since
--   1970.
-- locks: none. Index: __deferred_series_queue_fn_plugin_key, or all series; __deferred_minute_pkey
--   and its like
with moment as materialized (
    select now() - $5::int8 * interval '1 second' as first,
           now() + ($6::int8 - $5) * interval '1 second' as last),
series as materialized (
    select s.id, s.queue, s.fn, s.plugin from deferred.__deferred_series s
    where (case when $2::text is null then s.queue <> '*' else s.queue = $2 end)
      and (case when $3::text is null then s.fn <> '*' else s.fn = $3 end)
      and (s.plugin <> '*')::int4 = $4::int4)
select extract(epoch from now())::int8 as at, null::text as queue, null::text as fn,
       null::text as plugin,
       extract(epoch from f.folded_to)::int8 as ok, extract(epoch from f.exact_to)::int8 as failed,
       0::int8 as crashed, 0::int8 as timeout, 0::int8 as interrupted, 0::int8 as superseded,
       0::int8 as lost, 0::int8 as cancelled, 0::int8 as expired,
       0::int8 as snoozed, 0::int8 as dead, 0::int8 as arrived, 0::int8 as wait_us,
       0::int8 as run_us, 0::int8 as cpu_us, 0::int8 as max_rss_kb, '{}'::text as wait_histogram,
       '{}'::text as run_histogram, 0 as series
from deferred.__deferred_folded f
union all
(select case when $1::int4 = 0 then 0 else extract(epoch from x.at) end::int8, s.queue, s.fn,
 s.plugin,
        x.ok, x.failed, x.crashed, x.timeout, x.interrupted, x.superseded, x.lost, x.cancelled,
        x.expired, x.snoozed,
        x.dead, x.arrived, x.wait_us, x.run_us, x.cpu_us, x.max_rss_kb, x.wait::text, x.run::text,
        s.id
 from series s cross join moment m
 cross join lateral (
    select y.* from deferred.__deferred_sum y
    where y.span = $1::int4 and y.series = s.id
      and ($1 = 0 or (y.at >= m.first and y.at < m.last)) offset 0) x
 order by x.at, s.queue, s.fn, s.plugin)
