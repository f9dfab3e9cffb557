-- why_worker: what is known of the worker that holds a job.
-- params: worker int8
-- returns: there bool, ended bool, rebooted bool, cut_off bool, pid int8, host text?,
--   unseen_s int8?
-- Rows: one row. Its registration may not be there. If rebooted, a later run on its host has
--   another boot id. If cut_off, its session is gone. Column unseen_s is NULL if it ended or never
--   reports that it lives.
-- Locks: none. Index: primary key of __deferred_worker, of which the newest 1,000 rows are read
select w.id is not null as there, w.ended_at is not null as ended,
       exists (select from (select x.* from deferred.__deferred_worker x where x.id > w.id
                            order by x.id desc limit 1000) n
               where n.host = w.host
                 and split_part(n.instance, '@', 2) <> split_part(w.instance, '@', 2)) as rebooted,
       w.watch is not null
       and w.watch not in (select x.watch from deferred.__watching x) as cut_off,
       w.pid::int8 as pid, w.host, case when w.seen_at > w.started_at and w.ended_at is null
                                        then deferred.__age_s(w.seen_at) end as unseen_s
from (select) one left join deferred.__deferred_worker w on w.id = $1::int8
