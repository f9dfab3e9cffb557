-- figures: sums of the log.
-- params: span int4, queue text, fn text, by_build int4, from_s int8, for_s int8
-- returns: at int8, queue text?, fn text, plugin text, ok int8, failed int8, crashed int8,
--   timeout int8, interrupted int8, superseded int8, lost int8, cancelled int8, expired int8,
--   snoozed int8, dead int8, arrived int8, wait_us int8, run_us int8, cpu_us int8, max_rss_kb int8,
--   wait_histogram text, run_histogram text, series int4
-- $1 span: 1 minutes, 60 hours, 0 since ever.
-- $2 and $3: * for the sums over all, NULL for each.
-- $4 1: by build. 0: over all builds.
-- Rows: one for each minute or hour and series, in that order. at: in seconds since 1970.
--   Histograms are bigint[][] as text. The first row has NULL for a queue; at is now, ok is
--   folded_to, failed is exact_to, all in seconds since 1970.
-- Locks: none. Index: __deferred_series_queue_fn_plugin_key, or all series; __deferred_minute_pkey
--   and its like.
with moment as materialized (
    select now() - $5::int8 * interval '1 second' as first,
           now() + ($6::int8 - $5) * interval '1 second' as last),
series as materialized (
    select s.id, s.queue, s.fn, s.plugin from deferred.__deferred_series s
    where (case when $2::text is null then s.queue <> '*' else s.queue = $2 end)
      and (case when $3::text is null then s.fn <> '*' else s.fn = $3 end)
      and (s.plugin <> '*')::int4 = $4::int4)
select * from deferred.__figures_state
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
