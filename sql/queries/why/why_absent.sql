-- why_absent: lines and services that used to come, and are missed while others do.
-- params: none
-- returns: instance text, host text, pidfile text, service bool, starts int8, every_s int8?,
--   seen_s int8, json text
-- Rows: those seen last first, at most 20. every_s: usual time between starts; NULL: not known
-- Locks: none. Index: primary key of __deferred_worker, from its end: the newest 5,000;
--   __deferred_lease_worker
select a.instance, a.host, a.pidfile, a.service, a.starts, a.every_s, a.seen_s,
       row_to_json(a)::text as json from deferred.__absent() a
