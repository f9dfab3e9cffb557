-- Functions of which jobs died, which fail more than they did, or whose newest build is slower or
-- bigger than the one before it; all by the folded sums.
--
-- Of dead jobs the counters since ever are compared with what was told: none is missed, however
-- late it was folded, and whoever did not look. p_first: nobody ever looked, so what died before is
-- history. More failures: of the last 15 minutes against the hours of the week before, told apart
-- from chance by three standard deviations. A slower build: the median of its run times, of those
-- of the last two days, by its lower bound of 95 % against the upper one of the build before.
-- A bigger one: half of its hours against half of those of the other, and 16 MiB more.
--
-- Builds are looked at where p_builds says so: once an hour, which is how often there is more of
-- them to read.
--
-- Reads: the series, 20,000 at most, and of each function its rows by the primary key of
-- __deferred_sum.
create or replace function deferred.__alert_functions(p json, p_first boolean,
                                                      p_builds boolean) returns void
language plpgsql
as $$
declare
    v_hook  constant text := 'deferred-alert';
    v_to    timestamptz := (select f.folded_to from deferred.__deferred_folded f);
    v_dead  bigint := (p->>'dead')::bigint;
    v_share double precision := (p->>'failing')::double precision;
    v_ratio double precision := (p->>'build_ratio')::double precision;
    v       record;
begin
    for v in
        select s.fn, t.dead, t.dead - coalesce(a.counted, 0) as more, a.told_at
        from deferred.__deferred_series s
        join deferred.__deferred_sum t on t.span = 0 and t.series = s.id and t.at = '-infinity'
        left join deferred.__deferred_alert a on a.cause = 'dead' and a.name = s.fn
        where s.queue = '*' and s.plugin = '*' and s.fn not in ('*', '', v_hook)
          and t.dead <> coalesce(a.counted, 0)
    loop
        if v.more < 0 or p_first then  -- less than were counted: the sums were made anew
            insert into deferred.__deferred_alert (cause, name, ended_at, counted, text, mend)
            values ('dead', v.fn, now(), v.dead, '', '')
            on conflict (cause, name) do update set counted = excluded.counted;
        elsif v_dead > 0 and v.more >= v_dead then
            perform deferred.__alert_found('dead', v.fn,
                                           format('%s job%s of function %s died%s', v.more,
                                                  case when v.more <> 1 then 's' end, v.fn,
                ' since ' || to_char(v.told_at, 'YYYY-MM-DD HH24:MI')),
                format('deferred ls --state dead --fn %s', v.fn));
        end if;
    end loop;

    for v in
        with fn as materialized (
            select s.id, s.fn from deferred.__deferred_series s
            where v_share > 0 and s.queue = '*' and s.plugin = '*' and s.fn not in ('*', '', v_hook)
              -- that is told already
              and not exists (select from deferred.__deferred_function f
                              where f.name = s.fn and f.broken_at is not null)),
        lately as materialized (
            select x.id, x.fn, n.bad, n.ended
            from fn x
            cross join lateral (
                select coalesce(sum(m.failed + m.crashed + m.timeout + m.lost),
                                0)::double precision as bad,
                       coalesce(sum(m.ok + m.failed + m.crashed + m.timeout + m.lost),
                                0)::double precision as ended
                from deferred.__deferred_sum m where m.span = 1 and m.series = x.id
                    and m.at >= v_to - interval '15 minutes') n
            where n.ended >= 20 and n.bad > v_share * n.ended)
        select l.fn, l.bad, l.ended, b.bad / nullif(b.ended, 0) as before
        from lately l
        cross join lateral (
            select coalesce(sum(m.failed + m.crashed + m.timeout + m.lost),
                            0)::double precision as bad,
                   coalesce(sum(m.ok + m.failed + m.crashed + m.timeout + m.lost),
                            0)::double precision as ended
            from deferred.__deferred_sum m
            where m.span = 60 and m.series = l.id and m.at >= v_to - interval '7 days'
              and m.at < date_bin('1 hour', v_to - interval '15 minutes', '2000-01-01 00:00+00')) b
        cross join lateral (select (l.bad + b.bad) / (l.ended + b.ended) as both) c
        where case when b.ended < 20 then l.bad > 0.5 * l.ended
                   else l.bad / l.ended > 2 * b.bad / b.ended
                        and l.bad / l.ended - b.bad / b.ended > 3 *
                            sqrt(c.both * (1 - c.both) * (1 / l.ended + 1 / b.ended)) end
    loop
        perform deferred.__alert_found('failing', v.fn,
                                       format('function %s fails: %s of %s attempts in the last 15 '
                                              'minutes%s', v.fn, v.bad, v.ended,
            case when v.before is not null then format(', and %s %% in the week before',
                                                       round((100 * v.before)::numeric, 1)) end),
                                                       format('deferred ls --fn %s; deferred why '
                                                              '--all', v.fn));
    end loop;

    if not p_builds then
        return;
    end if;
    for v in
        with build as materialized (
            select s.fn, s.plugin, array_agg(s.id) as ids, max(s.id) as newest
            from deferred.__deferred_series s
            where v_ratio > 0 and s.queue <> '*' and s.fn not in ('*', '', '+', v_hook)
              and s.plugin not in ('*', '') group by s.fn, s.plugin),
        many as materialized (
            select b.fn from build b group by b.fn having count(*) > 1),
        seen as materialized (
            select b.fn, b.plugin, min(b.newest) as newest, max(m.at) as last,
                   sum(m.ok)::double precision as ok, deferred.__histogram_sum(m.run) as run,
                   percentile_cont(0.5) within group (order by m.max_rss_kb) as rss_kb
            from build b join many x on x.fn = b.fn
            cross join lateral (
                select y.* from deferred.__deferred_sum y
                where y.span = 60 and y.series = any (b.ids) and y.at >= v_to - interval '2 days') m
            group by b.fn, b.plugin having sum(m.ok) >= 100),
        pair as materialized (
            select n.fn, n.plugin as build, o.plugin as other, n.rss_kb, o.rss_kb as other_rss_kb,
                   deferred.__histogram_quantile(n.run, 0.5) as run_us,
                   deferred.__histogram_quantile(o.run, 0.5) as other_us,
                   deferred.__histogram_quantile(n.run, 0.5 - 1 / sqrt(n.ok)) as low_us,
                   deferred.__histogram_quantile(o.run, 0.5 + 1 / sqrt(o.ok)) as high_us
            from (select x.*, row_number() over (partition by x.fn order by x.newest desc) as at
                  from seen x) n
            join (select x.*, row_number() over (partition by x.fn order by x.newest desc) as at
                  from seen x) o on o.fn = n.fn and o.at = 2
            where n.at = 1 and n.last >= o.last)
        select 'slower' as cause, r.fn, r.build, r.other,
               format('half of its attempts take more than %s ms, %s ms before',
                      round((r.run_us / 1000)::numeric, 1),
               round((r.other_us / 1000)::numeric, 1)) as what
        from pair r where r.low_us > v_ratio * r.high_us
        union all
        select 'bigger', r.fn, r.build, r.other, format('it takes %s MiB, %s MiB before',
                                                        round((r.rss_kb / 1024)::numeric),
                                                        round((r.other_rss_kb / 1024)::numeric))
        from pair r where r.rss_kb > v_ratio * r.other_rss_kb and r.rss_kb > r.other_rss_kb + 16384
    loop
        perform deferred.__alert_found(v.cause, v.fn,
                                       format('function %s is %s since build %s: %s, with %s', v.fn,
                                              v.cause, v.build, v.what, v.other),
            'deferred functions; put the build before it back');
    end loop;
end
$$;
comment on function deferred.__alert_functions(json, boolean, boolean) is
    'finds functions that jobs die of, that fail more, or got slower or bigger; part of '
    'deferred.__alert()';
