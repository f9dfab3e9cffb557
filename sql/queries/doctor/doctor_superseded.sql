-- doctor_superseded: runs of the last day that ended an attempt of the run before. Looks at the
-- newest $1 pages of the log at most.
-- params: pages_max int8
-- returns: fn text, cut_off int8, instance text, gap_s int8?
-- Rows: most often cut off first, at most 5
-- Locks: none. Index: none for the log; primary keys of __deferred and __deferred_worker. Of a
--   thousand such attempts at most
with tail as materialized (
    select greatest(coalesce(pg_relation_size(to_regclass('deferred.__deferred_log_'
               || to_char(date_trunc('week', now() at time zone 'UTC'), 'YYYYMMDD'))), 0)
             / current_setting('block_size')::int8 - $1::int8, 0) as page),
cut as materialized (
    select l.job_id, l.worker from deferred.__deferred_log l
    where l.outcome = 'superseded' and l.finished_at > now() - interval '1 day'
      and l.ctid >= (select format('(%s,0)', t.page)::tid from tail t)
    limit 1000),
line as materialized (
    select w.id, split_part(w.instance, '#', 1) as name,
           extract(epoch from w.started_at - lag(w.started_at)
                   over (partition by split_part(w.instance, '#', 1) order by w.id))::int8 as gap_s
    from (select x.* from deferred.__deferred_worker x order by x.id desc limit 2000) w)
select d.fn, count(*) as cut_off, coalesce(l.name, '') as instance, min(g.gap_s) as gap_s
from cut c
join deferred.__deferred d on d.id = c.job_id
left join line l on l.id = c.worker
left join lateral (select percentile_disc(0.5) within group (order by x.gap_s) as gap_s from line x
                   where x.name = l.name) g on true
group by d.fn, l.name
order by count(*) desc
limit 5
