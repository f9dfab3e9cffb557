-- web_workers: runs and services that are alive, and those that ended last.
-- no parameters
-- returns worker (int8), host (text), pid (int4), version (text), it is alive (bool), seconds since it started, was seen, ended (int8), queues (text), instance (text);
--   those among the newest 200 workers
-- locks: none. Index: primary key of __deferred_worker from its end
select w.id, w.host, w.pid, w.version, w.ended_at is null, extract(epoch from clock_timestamp() - w.started_at)::int8,
       extract(epoch from clock_timestamp() - w.seen_at)::int8, extract(epoch from clock_timestamp() - w.ended_at)::int8, array_to_string(w.queues, ', '), w.instance
from (select x.* from deferred.__deferred_worker x order by x.id desc limit 200) w
order by w.ended_at is not null, w.id desc
