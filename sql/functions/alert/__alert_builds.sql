-- Functions whose newest build is slower or bigger than the one before it, by the last two days of
-- the sums. Slower: the lower bound of 95 % of the median run time is above the upper bound of the
-- other build. Bigger: the median of its hours is, and by more than 16 MiB. ratio: by so much; 0:
-- nothing is reported. Reads all series, 20,000 at most, and their sums by primary key.
create or replace function deferred.__alert_builds(ratio double precision) returns void
language plpgsql
as $$
declare
    v_to timestamptz := (select f.folded_to from deferred.__deferred_folded f);
    v    record;
begin
    for v in
        with build as materialized (
            select s.fn, s.plugin, array_agg(s.id) as ids, max(s.id) as newest,
                   count(*) over (partition by s.fn) as builds
            from deferred.__deferred_series s
            where ratio > 0 and s.queue <> '*' and s.fn not in ('*', '', '+', 'deferred-alert')
              and s.plugin not in ('*', '') group by s.fn, s.plugin),
        seen as materialized (
            select b.fn, b.plugin, max(m.at) as last, sum(m.ok)::double precision as ok,
                   deferred.__histogram_sum(m.run) as run,
                   percentile_cont(0.5) within group (order by m.max_rss_kb) as rss_kb,
                   row_number() over (partition by b.fn order by b.newest desc) as at
            from build b
            cross join lateral (
                select y.* from deferred.__deferred_sum y
                where y.span = 60 and y.series = any (b.ids) and y.at >= v_to - interval '2 days') m
            where b.builds > 1
            group by b.fn, b.plugin, b.newest having sum(m.ok) >= 100),
        pair as materialized (
            select n.fn, n.plugin as build, o.plugin as other, n.rss_kb, o.rss_kb as other_rss_kb,
                   deferred.__histogram_quantile(n.run, 0.5) as run_us,
                   deferred.__histogram_quantile(o.run, 0.5) as other_us,
                   deferred.__histogram_quantile(n.run, 0.5 - 1 / sqrt(n.ok)) as low_us,
                   deferred.__histogram_quantile(o.run, 0.5 + 1 / sqrt(o.ok)) as high_us
            from seen n join seen o on o.fn = n.fn and o.at = 2
            where n.at = 1 and n.last >= o.last)
        select 'slower' as cause, r.fn, r.build, r.other,
               format('half of its attempts take more than %s ms, %s ms before',
                      round((r.run_us / 1000)::numeric, 1),
                      round((r.other_us / 1000)::numeric, 1)) as what
        from pair r where r.low_us > ratio * r.high_us
        union all
        select 'bigger', r.fn, r.build, r.other,
               format('it takes %s MiB, %s MiB before', round((r.rss_kb / 1024)::numeric),
                      round((r.other_rss_kb / 1024)::numeric))
        from pair r where r.rss_kb > ratio * r.other_rss_kb and r.rss_kb > r.other_rss_kb + 16384
    loop
        perform deferred.__alert_found(
            v.cause, v.fn,
            format('function %s is %s since build %s: %s, with %s', v.fn, v.cause, v.build, v.what,
                   v.other),
            'deferred functions; install the build before it again');
    end loop;
end
$$;
