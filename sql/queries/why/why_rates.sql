-- why_rates: what ended in the last 15 minutes, and how that was before; as far as the newest pages
-- of the log tell.
-- params: queue text, pages_max int8, before_pages_max int8
-- returns: minutes float8, attempts int8, failed int8, superseded int8, run_s float8, fn text?,
--   share float8, p50_s float8?, p50_before_s float8?, plugin text?, failed_job int8?
-- $1 NULL: all. $2, $3: pages of the log to look at, for the last minutes and for the time before.
-- Rows: one row. Column minutes: 0: nothing ended. Column fn: took most of the run time. Columns
--   p50_s and p50_before_s: its median run time now and before; NULL: not known. Column plugin: its
--   build since then. Column failed_job: one that failed as most did.
-- Locks: none. Index: none for the log. It reads the end of the week's partition, and before that a
--   few pages at distances that double. Primary key of __deferred for each attempt in these pages,
--   and for 1,000 of the time before.
with week as materialized (
    select date_trunc('week', now() at time zone 'UTC') as first),
tail as materialized (
    select greatest(pg_relation_size(coalesce(
               to_regclass('deferred.__deferred_log_' || to_char(w.first, 'YYYYMMDD')),
               'deferred.__deferred_log_default'))
               / current_setting('block_size')::int8 - $2::int8, 0) as near
    from week w),
-- Without both ends of the week, the other partitions are read too.
near as materialized (
    select l.job_id, l.outcome, deferred.__measure(l.run_us) as run_us, l.finished_at, l.plugin
    from deferred.__deferred_log l
    where l.finished_at > now() - interval '15 min' and l.started_at is not null
      and l.finished_at >= (select w.first at time zone 'UTC' from week w)
      and l.finished_at < (select w.first at time zone 'UTC' + interval '7 days' from week w)
      and l.ctid >= (select format('(%s,0)', t.near)::tid from tail t)),
recent as materialized (
    select n.*, d.fn from near n
    cross join lateral (select x.fn, x.queue from deferred.__deferred x where x.id = n.job_id
                        limit 1) d
    where $1::text is null or d.queue = $1),
by_fn as materialized (
    select r.fn, sum(r.run_us) as run_us, percentile_cont(0.5) within group (order by r.run_us)
           as p50, (array_agg(r.plugin order by r.finished_at desc))[1] as plugin
    from recent r group by r.fn order by sum(r.run_us) desc nulls last limit 1),
-- The partition of now, and the one of a day ago.
weeks as materialized (
    select w.first at time zone 'UTC' as first,
           w.first at time zone 'UTC' + interval '7 days' as past,
           pg_relation_size(coalesce(
               to_regclass('deferred.__deferred_log_' || to_char(w.first, 'YYYYMMDD')),
               'deferred.__deferred_log_default')) / current_setting('block_size')::int8 as pages
    from (select distinct date_trunc('week', t at time zone 'UTC') as first
          from unnest(array[now(), now() - interval '1 day']) t) w),
-- A day has many pages, and its first page is not known. Some pages are therefore read far from the
-- end, then at half that distance, and so on.
steps as materialized (
    select x.first, x.past, x.page,
           max(case when i = 0 then $2
                    else least(greatest($2 / 5, 1), greatest(x.pages - $2, 0) - x.page) end)
               as pages
    from (select w.*, i, greatest(w.pages - least($2::int8 << i, $3::int8), 0) as page
          from weeks w
          cross join generate_series(0, ceil(log(2, greatest($3::int8::numeric / $2, 1)))::integer)
              i) x
    group by x.first, x.past, x.page),
before as materialized (
    select b.run_us, b.plugin, b.finished_at
    from (select x.*
          from (select s.* from steps s order by s.page) s
          cross join lateral (
             select l.job_id, deferred.__measure(l.run_us) as run_us, l.plugin, l.finished_at
             from deferred.__deferred_log l
             where l.finished_at between now() - interval '1 day' and now() - interval '15 min'
               and l.finished_at >= s.first and l.finished_at < s.past
               and l.ctid >= format('(%s,0)', s.page)::tid
               and l.ctid < format('(%s,0)', s.page + s.pages)::tid
             limit 400) x
          limit 400) b
    cross join lateral (select x.fn, x.queue from deferred.__deferred x where x.id = b.job_id
                        limit 1) d
    where d.fn = (select f.fn from by_fn f) and ($1 is null or d.queue = $1)),
usual as materialized (
    select percentile_cont(0.5) within group (order by b.run_us) as p50,
           (array_agg(b.plugin order by b.finished_at desc))[1] as plugin
    from before b having count(b.run_us) >= 20)
select case when s.n = 0 then 0
            else greatest(1, extract(epoch from clock_timestamp() - s.since) / 60) end::float8
           as minutes,
       s.n as attempts, s.failed, s.superseded, (s.run_us / 1e6)::float8 as run_s, f.fn,
       (f.run_us / nullif(s.run_us, 0))::float8 as share, (f.p50 / 1e6)::float8 as p50_s,
       (u.p50 / 1e6)::float8 as p50_before_s,
       case when u.plugin <> f.plugin then f.plugin end as plugin, s.failed_job
from (select count(*) as n, min(r.finished_at) as since,
             count(*) filter (where b.bad) as failed,
             count(*) filter (where r.outcome = 'superseded') as superseded,
             coalesce(sum(r.run_us), 0) as run_us,
             (array_agg(r.job_id order by r.finished_at desc) filter (where b.bad))[1]
                 as failed_job
      from recent r
      cross join lateral (
          select r.outcome in ('failed', 'crashed', 'timeout', 'lost') as bad) b) s
left join by_fn f on true
left join usual u on true
