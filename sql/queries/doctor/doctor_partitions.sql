-- doctor_partitions: are the partitions there that the next weeks and jobs need?
-- params: none
-- returns: log_now bool, log_next bool, jobs_now bool, jobs_next bool, net_rows int8,
--   partitions int8, set_aside text?
-- Rows: one row: four columns say whether a partition exists. Two are for the log: this week, and
--   the week after the next. Two are for the call table: the next job, and 2,500,000 jobs later.
--   Then rows in the default partitions, as the statistics estimate them. Then partitions of
--   __deferred. The last is a table that waits to be archived (NULL: none).
-- Locks: none. Index: primary key of __deferred, from its end.
with p as materialized (
    select x.first::int8, x.past::int8 from deferred.__partitions('deferred.__deferred') x)
select to_regclass('deferred.__deferred_log_' || to_char(date_trunc('week',
    now() at time zone 'UTC'), 'YYYYMMDD')) is not null as log_now,
       to_regclass('deferred.__deferred_log_' || to_char(date_trunc('week',
           now() at time zone 'UTC') + interval '2 weeks', 'YYYYMMDD')) is not null as log_next,
       exists (select from p where i.last + 1 >= p.first and i.last + 1 < p.past) as jobs_now,
       exists (select from p where i.last + 2500000 >= p.first
               and i.last + 2500000 < p.past) as jobs_next,
       (select coalesce(sum(s.n_live_tup), 0)::int8 from pg_catalog.pg_stat_user_tables s
        where s.relid in ('deferred.__deferred_default'::regclass,
                          'deferred.__deferred_log_default'::regclass)) as net_rows,
       (select count(*) + 1 from p) as partitions,
       (select min(a.name) from deferred.__asides() a) as set_aside
from (select coalesce((select d.id from deferred.__deferred d order by d.id desc limit 1),
                      0) as last) i
