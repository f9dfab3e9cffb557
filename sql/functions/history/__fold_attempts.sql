-- Attempts that ended in [since, until), as deferred.__fold_slice() counts them. at: their minute.
-- A log row names neither queue nor function, so each is looked up by id, whatever the planner
-- expects of that.
create or replace function deferred.__fold_attempts(since timestamptz, until timestamptz)
returns table (at timestamptz, queue text, fn text, plugin text, outcome text, dead boolean,
               wait_bucket integer, run_bucket integer, wait_us bigint, run_us bigint,
               cpu_us bigint, max_rss_kb bigint, creator text)
language sql stable
as $$
    select date_bin('1 minute', l.finished_at, '2000-01-01 00:00+00'), coalesce(d.queue, ''),
           coalesce(d.fn, ''), coalesce(l.plugin, ''), l.outcome,
           l.final and deferred.state(l.outcome) = 'dead',
           deferred.__bucket(m.wait_us), deferred.__bucket(m.run_us), coalesce(m.wait_us, 0),
           coalesce(m.run_us, 0), coalesce(m.user_us, 0) + coalesce(m.sys_us, 0),
           deferred.__measure(l.max_rss_kb), d.created_by
    from deferred.__deferred_log l
    cross join lateral (
        select deferred.__measure(l.wait_us) as wait_us, deferred.__measure(l.run_us) as run_us,
               deferred.__measure(l.user_us) as user_us, deferred.__measure(l.sys_us) as sys_us) m
    left join lateral (select d.queue, d.fn, d.created_by from deferred.__deferred d
                       where d.id = l.job_id offset 0) d on true
    where l.finished_at >= since and l.finished_at < until
$$;
