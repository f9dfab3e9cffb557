-- alert_ls: what is wrong, as it was found last.
-- no parameters
-- returns cause (text), queue or function (text), seconds since it was found (int8), since it was told (int8; NULL: it was not), sentence, what to do (text), all
--   of it as JSON (text); the oldest first, queues last, for whoever defers can make many: 1,000 at
--   most
-- locks: none. Index: none; all of __deferred_alert
select a.cause, a.name, extract(epoch from clock_timestamp() - a.since)::int8, extract(epoch from clock_timestamp() - a.told_at)::int8, a.text, a.mend,
       json_build_object('cause', a.cause, 'name', a.name, 'since', a.since, 'told_at', a.told_at, 'text', a.text, 'do', a.mend)::text
from deferred.__deferred_alert a
where a.ended_at is null
order by a.cause in ('late', 'unserved'), a.since, a.cause, a.name
limit 1000
