-- why_runs: did the last runs end because they had made as many attempts as they may, and leave
-- jobs behind?
-- params: waited_s int8, pages_max int8
-- returns: runs int8, full int8, most int8, instance text?
-- Rows: one row: the runs that ended since, at most 10. Then the most frequent number of attempts:
--   runs with that number, and the number. Then host and pidfile.
-- Locks: none. Index: primary key of __deferred_worker, from its end: the newest 50. Of the log the
--   end of the week's partition is read.
with tail as materialized (
    select greatest(coalesce(pg_relation_size(to_regclass('deferred.__deferred_log_' ||
        to_char(date_trunc('week', now() at time zone 'UTC'), 'YYYYMMDD'))), 0)
             / current_setting('block_size')::int8 - $2::int8, 0) as page),
recent as materialized (
    select w.id, split_part(w.instance, '#', 1) as name
    from (select x.* from deferred.__deferred_worker x order by x.id desc limit 50) w
    where w.ended_at is not null and w.mode is distinct from 'sql'
      and w.started_at > clock_timestamp() - ($1::int8 + 1) * interval '1 second'
    order by w.id desc limit 10),
made as materialized (
    select r.id, r.name, (select count(*) from deferred.__deferred_log l
                          where l.worker = r.id and l.finished_at > now() - interval '1 day'
                          and l.ctid >= (select format('(%s,0)', t.page)::tid from tail t)) as n
    from recent r)
select (select count(*) from made) as runs, count(*) as full, m.n as most, max(m.name) as instance
from made m where m.n > 0 group by m.n order by count(*) desc limit 1
