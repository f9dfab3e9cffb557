-- top_recent: what ended in the last 15 minutes, by queue, by function and in all; as far as the
-- newest pages of the log tell.
-- params: queue text, pages_max int8
-- returns: queue text?, fn text?, ended_1 int8, ended_5 int8, ended_15 int8, failed_15 int8,
--   wait_us int8?, run_us int8?, json text, more bool, cpu_us int8?
-- Rows: one for each queue, each function and all (both NULL). Those with most attempts come first,
--   at most 200. Columns wait_us, run_us, cpu_us: means of the last 15 minutes. Column more: not
--   all attempts were read.
-- Locks: none. Index: none for the log, of which the end of the week's partition is read; primary
--   key of __deferred for each attempt in these pages.
with tail as materialized (
    select greatest(coalesce(pg_relation_size(to_regclass('deferred.__deferred_log_' ||
        to_char(date_trunc('week', now() at time zone 'UTC'), 'YYYYMMDD'))), 0)
             / current_setting('block_size')::int8 - $2::int8, 0) as page),
near as materialized (
    select l.job_id, l.outcome, deferred.__measure(l.run_us) as run_us,
           deferred.__measure(l.wait_us) as wait_us,
           deferred.__measure(l.user_us) + deferred.__measure(l.sys_us) as cpu_us, l.finished_at
               from deferred.__deferred_log l
    where l.finished_at > now() - interval '15 min' and l.started_at is not null
      and l.ctid >= (select format('(%s,0)', t.page)::tid from tail t)),
figures as (
    select d.queue, d.fn, count(*) filter (where n.finished_at > now() - interval
                                           '1 min') as ended_1, count(*)
                                               filter (where n.finished_at > now() - interval
                                                       '5 min') as ended_5,
           count(*) as ended_15, count(*) filter (where n.outcome in ('failed', 'crashed',
               'timeout', 'lost')) as failed_15,
           avg(n.wait_us)::int8 as wait_us, avg(n.run_us)::int8 as run_us,
           avg(n.cpu_us)::int8 as cpu_us,
           (select min(x.finished_at) > now() - interval '14 min'
            and (select t.page > 0 from tail t) from near x) as more
    from near n
    cross join lateral (select x.fn, x.queue from deferred.__deferred x where x.id = n.job_id
                        limit 1) d
    where d.fn is not null and ($1::text is null or d.queue = $1)
    group by grouping sets ((d.queue), (d.fn), ()))
select f.queue, f.fn, f.ended_1, f.ended_5, f.ended_15, f.failed_15, f.wait_us, f.run_us,
       row_to_json(f)::text as json, f.more, f.cpu_us
from figures f
order by f.ended_15 desc, f.queue, f.fn
limit 200
