-- Adds sums of minutes to the stored sums of these minutes, of their hours and since ever. Part of
-- deferred.__fold_slice(). A sign of -1 subtracts them, except arrivals and memory. A histogram may
-- name a bucket more than once.
--
-- One grouping adds all buckets: to add histogram to histogram takes a call for each minute.
create or replace function deferred.__fold_add(minutes deferred.__deferred_sum[], sign integer)
returns void
language plpgsql
as $$
begin
    with change as materialized (
        select v.unit, v.since, m.*
        from unnest(minutes) m
        cross join lateral (values (1, m.at), (60, date_bin('1 hour', m.at, '2000-01-01 00:00+00')),
                                   (0, '-infinity')) v (unit, since)),
    bucket as (
        select b.unit, b.since, b.series,
               array_agg(array[b.bucket, b.n] order by b.bucket) filter (where b.waits) as wait,
               array_agg(array[b.bucket, b.n] order by b.bucket) filter (where not b.waits) as run
        from (select c.unit, c.since, c.series, h.waits, h.bucket, sign * sum(h.n)::bigint as n
              from change c
              cross join lateral (
                  select true, c.wait[i][1], c.wait[i][2] from generate_subscripts(c.wait, 1) i
                  union all
                  select false, c.run[i][1], c.run[i][2] from generate_subscripts(c.run, 1) i)
                  h (waits, bucket, n)
              group by 1, 2, 3, 4, 5) b
        group by 1, 2, 3)
    insert into deferred.__deferred_sum as s
    select c.*, coalesce(b.wait, '{}'), coalesce(b.run, '{}')
    from (select c.unit, c.since, c.series, sign * coalesce(sum(c.ok), 0),
                 sign * coalesce(sum(c.failed), 0), sign * coalesce(sum(c.crashed), 0),
                 sign * coalesce(sum(c.timeout), 0), sign * coalesce(sum(c.interrupted), 0),
                 sign * coalesce(sum(c.superseded), 0), sign * coalesce(sum(c.lost), 0),
                 sign * coalesce(sum(c.cancelled), 0), sign * coalesce(sum(c.expired), 0),
                 sign * coalesce(sum(c.snoozed), 0), sign * coalesce(sum(c.dead), 0),
                 greatest(sign, 0) * coalesce(sum(c.arrived), 0),
                 sign * coalesce(deferred.__bounded(sum(c.wait_us)), 0),
                 sign * coalesce(deferred.__bounded(sum(c.run_us)), 0),
                 sign * coalesce(deferred.__bounded(sum(c.cpu_us)), 0),
                 coalesce(max(c.max_rss_kb), 0)
          from change c group by 1, 2, 3) c
    left join bucket b using (unit, since, series)
    on conflict (span, series, at) do update set
        ok = s.ok + excluded.ok,
        failed = s.failed + excluded.failed,
        crashed = s.crashed + excluded.crashed,
        timeout = s.timeout + excluded.timeout,
        interrupted = s.interrupted + excluded.interrupted,
        superseded = s.superseded + excluded.superseded,
        lost = s.lost + excluded.lost,
        cancelled = s.cancelled + excluded.cancelled,
        expired = s.expired + excluded.expired,
        snoozed = s.snoozed + excluded.snoozed,
        dead = s.dead + excluded.dead,
        arrived = s.arrived + excluded.arrived,
        wait_us = greatest(0, deferred.__bounded(s.wait_us + excluded.wait_us)),
        run_us = greatest(0, deferred.__bounded(s.run_us + excluded.run_us)),
        cpu_us = greatest(0, deferred.__bounded(s.cpu_us + excluded.cpu_us)),
        max_rss_kb = greatest(s.max_rss_kb, excluded.max_rss_kb),
        -- Mostly one of them is empty, because jobs arrive before they run; a call costs more than
        -- the row.
        wait = case when s.wait = '{}' then excluded.wait when excluded.wait = '{}' then s.wait
                    else deferred.__histogram_add(s.wait, excluded.wait) end,
        run = case when s.run = '{}' then excluded.run when excluded.run = '{}' then s.run
                   else deferred.__histogram_add(s.run, excluded.run) end;
end
$$;
