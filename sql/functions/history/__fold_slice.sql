-- What ended in [p_from, p_to), and the jobs deferred with ids in (p_id_from, p_id_to], added to
-- the sums; part of deferred.__fold(), whose lock is held.
-- p_again: these minutes were summed before, and are replaced. Returns how many attempts and
-- arrivals there were.
--
-- A log row tells neither queue nor function: they are looked up by id, row by row, whatever the
-- planner thinks of that. The rows are grouped by outcome, by wait and by run time first; what
-- follows has some hundred groups to work on.
create or replace function deferred.__fold_slice(p_from timestamptz, p_to timestamptz,
                                                 p_again boolean, p_id_from bigint, p_id_to bigint,
    out attempts bigint, out arrived bigint)
language plpgsql
as $$
declare
    v_epoch constant timestamptz := '2000-01-01 00:00+00';
    -- a sum goes up to this, and the sum of two is a bigint still: nobody comes so far but who
    -- records times that were not
    v_most  constant bigint := 1000000000000000000;
    v_full  boolean := coalesce((select max(s.id) >= 20000 from deferred.__deferred_series s),
                                false);
begin
    with row as materialized (
        select date_bin('1 minute', l.finished_at, v_epoch) as at, coalesce(d.queue, '') as queue,
               coalesce(d.fn, '') as fn, coalesce(l.plugin, '') as plugin,
               l.outcome, l.final and deferred.state(l.outcome) = 'dead' as dead,
               deferred.__bucket(m.wait_us) as wait_bucket,
               deferred.__bucket(m.run_us) as run_bucket, coalesce(m.wait_us, 0) as wait_us,
               coalesce(m.run_us, 0) as run_us,
               coalesce(m.user_us, 0) + coalesce(m.sys_us, 0) as cpu_us,
               deferred.__measure(l.max_rss_kb) as max_rss_kb,
               d.created_by as creator
        from deferred.__deferred_log l
        cross join lateral (
            select deferred.__measure(l.wait_us) as wait_us, deferred.__measure(l.run_us) as run_us,
                   deferred.__measure(l.user_us) as user_us,
                   deferred.__measure(l.sys_us) as sys_us) m
        left join lateral (select d.queue, d.fn, d.created_by from deferred.__deferred d
                           where d.id = l.job_id offset 0) d on true
        where l.finished_at >= p_from and l.finished_at < p_to),
    caller as (
        insert into deferred.__deferred_caller as c (fn, creator, crashed_at, other_at)
        select r.fn, r.creator, max(r.at) filter (where r.outcome = 'crashed'),
               max(r.at) filter (where r.outcome <> 'crashed')
        from row r
        where r.fn <> '' and r.creator is not null
          and r.outcome in ('crashed', 'ok', 'failed', 'timeout', 'cancelled', 'snoozed')
        group by r.fn, r.creator
        on conflict (fn, creator) do update
        set crashed_at = greatest(c.crashed_at, excluded.crashed_at),
            other_at = greatest(c.other_at, excluded.other_at)),
    seen as materialized (
        select r.at, r.queue, r.fn, r.plugin, r.outcome, r.dead, r.wait_bucket, r.run_bucket,
               grouping(r.outcome) = 0 as counts, count(*) as n, 0 as arrived,
               sum(r.wait_us) as wait_us, sum(r.run_us) as run_us, sum(r.cpu_us) as cpu_us,
               max(r.max_rss_kb) as max_rss_kb
        from row r
        group by grouping sets ((at, queue, fn, plugin, outcome, dead),
                                (at, queue, fn, plugin, wait_bucket),
                                (at, queue, fn, plugin, run_bucket))
        union all
        select date_bin('1 minute', d.created_at, v_epoch), d.queue, coalesce(d.fn, ''), '', null,
               false, null, null, true, 0, count(*), 0, 0, 0, 0
        from deferred.__deferred d
        where d.id > p_id_from and d.id <= p_id_to
        group by 1, 2, 3),
    named as materialized (
        select x.queue, x.fn, x.plugin, v_full and s.id is null as other
        from (select distinct x.queue, x.fn, x.plugin from seen x) x
        left join deferred.__deferred_series s on (s.queue, s.fn, s.plugin) = (x.queue, x.fn,
            x.plugin)),
    part as materialized (
        select x.at, k.queue, k.fn, k.plugin, x.outcome, x.dead, x.wait_bucket, x.run_bucket,
               x.counts, x.n, x.arrived, x.wait_us, x.run_us, x.cpu_us, x.max_rss_kb
        from seen x
        join named m on (m.queue, m.fn, m.plugin) = (x.queue, x.fn, x.plugin)
        cross join lateral (select case when m.other then '+' else x.fn end as fn,
                            case when m.other then '' else x.plugin end as plugin) o
        cross join lateral (values (x.queue, o.fn, o.plugin), (x.queue, '*', '*'), ('*', o.fn, '*'),
                            ('*', '*', '*')) k (queue, fn, plugin)),
    there as materialized (
        select p.queue, p.fn, p.plugin, s.id
        from (select distinct p.queue, p.fn, p.plugin from part p) p
        left join deferred.__deferred_series s on (s.queue, s.fn, s.plugin) = (p.queue, p.fn,
            p.plugin)),
    made as (
        insert into deferred.__deferred_series as s (queue, fn, plugin)
        select t.queue, t.fn, t.plugin from there t where t.id is null
        returning s.id, s.queue, s.fn, s.plugin),
    part_of as materialized (
        select i.id as series, p.* from part p
        join (select t.id, t.queue, t.fn, t.plugin from there t where t.id is not null
              union all select m.id, m.queue, m.fn, m.plugin from made m) i
            on (i.queue, i.fn, i.plugin) = (p.queue, p.fn, p.plugin)),
    old as materialized (
        select o.* from deferred.__deferred_sum o where p_again and o.span = 1 and o.at >= p_from
            and o.at < p_to),
    -- Each bucket by itself: histograms added one to another would cost as many calls as there are
    -- minutes.
    wait as (
        select w.span, w.at, w.series, array_agg(array[w.bucket, w.n] order by w.bucket) as wait
        from (select v.span, v.at, x.series, x.bucket, sum(x.n)::bigint as n
              from (select p.at, p.series, p.wait_bucket::bigint as bucket, p.n from part_of p
                    where p.wait_bucket is not null
                    union all select o.at, o.series, o.wait[i][1], -o.wait[i][2]
                        from old o cross join lateral generate_subscripts(o.wait, 1) i) x
              cross join lateral (values (1, x.at), (60, date_bin('1 hour', x.at, v_epoch)),
                                  (0, '-infinity')) v (span, at)
              group by 1, 2, 3, 4 having sum(x.n) <> 0) w
        group by 1, 2, 3),
    run as (
        select r.span, r.at, r.series, array_agg(array[r.bucket, r.n] order by r.bucket) as run
        from (select v.span, v.at, x.series, x.bucket, sum(x.n)::bigint as n
              from (select p.at, p.series, p.run_bucket::bigint as bucket, p.n from part_of p
                    where p.run_bucket is not null
                    union all select o.at, o.series, o.run[i][1], -o.run[i][2]
                        from old o cross join lateral generate_subscripts(o.run, 1) i) x
              cross join lateral (values (1, x.at), (60, date_bin('1 hour', x.at, v_epoch)),
                                  (0, '-infinity')) v (span, at)
              group by 1, 2, 3, 4 having sum(x.n) <> 0) r
        group by 1, 2, 3),
    minute as materialized (
        select p.at, p.series,
               sum(p.n) filter (where p.outcome = 'ok') as ok,
               sum(p.n) filter (where p.outcome = 'failed') as failed,
               sum(p.n) filter (where p.outcome = 'crashed') as crashed,
               sum(p.n) filter (where p.outcome = 'timeout') as timeout,
               sum(p.n) filter (where p.outcome = 'interrupted') as interrupted,
               sum(p.n) filter (where p.outcome = 'superseded') as superseded,
               sum(p.n) filter (where p.outcome = 'lost') as lost,
               sum(p.n) filter (where p.outcome = 'cancelled') as cancelled,
               sum(p.n) filter (where p.outcome = 'expired') as expired,
               sum(p.n) filter (where p.outcome = 'snoozed') as snoozed,
               sum(p.n) filter (where p.dead) as dead, sum(p.arrived) as arrived,
               sum(p.wait_us) as wait_us, sum(p.run_us) as run_us,
               sum(p.cpu_us) as cpu_us, max(p.max_rss_kb) as max_rss_kb
        from part_of p where p.counts
        group by 1, 2),
    change as materialized (
        select m.* from minute m
        union all
        select o.at, o.series, -o.ok, -o.failed, -o.crashed, -o.timeout, -o.interrupted,
               -o.superseded, -o.lost, -o.cancelled, -o.expired, -o.snoozed, -o.dead, 0, -o.wait_us,
               -o.run_us, -o.cpu_us, 0
        from old o),
    added as (
        insert into deferred.__deferred_sum as s (span, at, series, ok, failed, crashed, timeout,
                                                  interrupted, superseded, lost, cancelled, expired,
                                                  snoozed, dead, arrived, wait_us, run_us, cpu_us,
                                                  max_rss_kb, wait, run)
        select c.*, coalesce(w.wait, '{}'), coalesce(r.run, '{}')
        from (select v.span, v.at, c.series, coalesce(sum(c.ok), 0) as ok,
              coalesce(sum(c.failed), 0) as failed, coalesce(sum(c.crashed), 0) as crashed,
              coalesce(sum(c.timeout), 0) as timeout,
              coalesce(sum(c.interrupted), 0) as interrupted,
              coalesce(sum(c.superseded), 0) as superseded, coalesce(sum(c.lost), 0) as lost,
              coalesce(sum(c.cancelled), 0) as cancelled, coalesce(sum(c.expired), 0) as expired,
              coalesce(sum(c.snoozed), 0) as snoozed, coalesce(sum(c.dead), 0) as dead,
              coalesce(sum(c.arrived), 0) as arrived,
              greatest(-v_most, least(coalesce(sum(c.wait_us), 0), v_most)) as wait_us,
              greatest(-v_most, least(coalesce(sum(c.run_us), 0), v_most)) as run_us,
              greatest(-v_most, least(coalesce(sum(c.cpu_us), 0), v_most)) as cpu_us,
              coalesce(max(c.max_rss_kb), 0) as max_rss_kb
              from change c
              cross join lateral (values (1, c.at), (60, date_bin('1 hour', c.at, v_epoch)),
                                  (0, '-infinity')) v (span, at)
              group by v.span, v.at, c.series) c
        left join wait w using (span, at, series) left join run r using (span, at, series)
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
            wait_us = greatest(0, least(s.wait_us + excluded.wait_us, v_most)),
            run_us = greatest(0, least(s.run_us + excluded.run_us, v_most)),
            cpu_us = greatest(0, least(s.cpu_us + excluded.cpu_us, v_most)),
            max_rss_kb = greatest(s.max_rss_kb, excluded.max_rss_kb),
            -- Mostly one of them is empty, for jobs arrive before they are run; a call costs more
            -- than the row.
            wait = case when s.wait = '{}' then excluded.wait when excluded.wait = '{}' then s.wait
                        else deferred.__histogram_add(s.wait, excluded.wait) end,
            run = case when s.run = '{}' then excluded.run when excluded.run = '{}' then s.run
                       else deferred.__histogram_add(s.run, excluded.run) end)
    select coalesce(sum(x.n), 0), coalesce(sum(x.arrived), 0) into attempts, arrived from seen x
    where x.counts;
end
$$;
comment on function deferred.__fold_slice is
    'adds attempts and arrivals to the sums; part of deferred.__fold()';
