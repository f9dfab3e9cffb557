-- figures_run: how long functions ran in the last day.
-- params: fns text[]
-- returns: as figures
-- rows: the rows of figures.sql by the hour and function, in the same order, with nothing but their
--   runs.
-- locks: none. Index: __deferred_series_queue_fn_plugin_key; __deferred_hour_pkey, 25 rows of each
--   function
with series as materialized (
    select s.id, s.fn from deferred.__deferred_series s where s.queue = '*' and s.plugin = '*'
        and s.fn = any ($1::text[]))
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
(select extract(epoch from x.at)::int8, '*', s.fn, '*', 0::int8, 0::int8, 0::int8, 0::int8, 0::int8,
 0::int8, 0::int8, 0::int8, 0::int8, 0::int8,
        0::int8, 0::int8, 0::int8, 0::int8, 0::int8, 0::int8, '{}'::text, x.run::text, s.id
 from series s
 cross join lateral (
    select y.at, y.run from deferred.__deferred_sum y where y.span = 60 and y.series = s.id
        and y.at >= now() - interval '1 day' offset 0) x
 order by x.at, s.fn)
