-- web_workers: runs and services that are alive, and those that ended last.
-- params: none
-- returns: id int8, host text, pid int4, version text, alive bool, started_s int8, seen_s int8,
--   ended_s int8?, queues text, instance text
-- Rows: of the newest 200 workers
-- Locks: none. Index: primary key of __deferred_worker from its end
select w.id, w.host, w.pid, w.version, w.ended_at is null as alive,
       deferred.__age_s(w.started_at) as started_s,
       deferred.__age_s(w.seen_at) as seen_s,
       deferred.__age_s(w.ended_at) as ended_s,
       array_to_string(w.queues, ', ') as queues, w.instance
from (select x.* from deferred.__deferred_worker x order by x.id desc limit 200) w
order by w.ended_at is not null, w.id desc
