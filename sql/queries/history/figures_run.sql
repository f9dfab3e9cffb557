-- figures_run: how long functions ran in the last day.
-- params: fns text[]
-- returns: as figures
-- Rows: by the hour and function; only the histogram of runs is set
-- Locks: none. Index: __deferred_series_queue_fn_plugin_key; __deferred_hour_pkey, 25 rows of each
--   function
with series as materialized (
    select s.id, s.fn from deferred.__deferred_series s where s.queue = '*' and s.plugin = '*'
        and s.fn = any ($1::text[]))
select * from deferred.__figures_state
union all
(select extract(epoch from x.at)::int8, '*', s.fn, '*', 0::int8, 0::int8, 0::int8, 0::int8, 0::int8,
 0::int8, 0::int8, 0::int8, 0::int8, 0::int8,
        0::int8, 0::int8, 0::int8, 0::int8, 0::int8, 0::int8, '{}'::text, x.run::text, s.id
 from series s
 cross join lateral (
    select y.at, y.run from deferred.__deferred_sum y where y.span = 60 and y.series = s.id
        and y.at >= now() - interval '1 day' offset 0) x
 order by x.at, s.fn)
