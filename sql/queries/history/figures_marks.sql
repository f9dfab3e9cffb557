-- figures_marks: when functions were first run in another build of their plugin, as far as the sums
-- by hour go back.
-- params: fn text, from_s int8, rows_max int4
-- returns: at int8, fn text, plugin text
-- $1 NULL: any
-- Rows: newest first. at: the minute, or the hour where minutes are gone, in seconds since 1970
-- Locks: none. Index: all series; __deferred_sum_pkey: one row of each build
with build as materialized (
    select s.fn, s.plugin, array_agg(s.id) as ids, min(x.at) as at
    from deferred.__deferred_series s
    cross join lateral (select y.at from deferred.__deferred_sum y
                        where y.span = 60 and y.series = s.id order by y.at limit 1) x
    where s.queue <> '*' and s.fn not in ('*', '', '+') and s.plugin not in ('*', '')
      and ($1::text is null or s.fn = $1)
    group by s.fn, s.plugin),
mark as materialized (
    select b.* from (select x.*, row_number() over (partition by x.fn order by x.at, x.plugin) as n
                     from build x) b
    where b.n > 1 and b.at >= now() - $2::int8 * interval '1 second'
    order by b.at desc, b.fn, b.plugin limit $3::int4)
select extract(epoch from coalesce((select min(y.at) from deferred.__deferred_sum y
                                    where y.span = 1 and y.series = any (m.ids) and y.at >= m.at
                                      and y.at < m.at + interval '1 hour'), m.at))::int8 as at,
       m.fn, m.plugin
from mark m
order by 1 desc, m.fn, m.plugin
