-- why_absent: lines and services that used to come, and are missed while others do.
-- no parameters
-- returns host and pidfile (text), host (text), pidfile (text), a service (bool), its starts (int8), usual seconds from one to the next (int8; NULL: not known), seconds since it was
--   seen (int8), all of it as a JSON object (text); those that went last first, 20 at most
-- locks: none. Index: primary key of __deferred_worker, from its end: the newest 5,000; __deferred_lease_worker
select a.instance, a.host, a.pidfile, a.service, a.starts, a.every_s, a.seen_s, row_to_json(a)::text from deferred.__absent() a
