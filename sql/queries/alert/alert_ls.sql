-- alert_ls: what is wrong, as it was found last.
-- params: none
-- returns: cause text, name text, since_s int8, reported_s int8?, text text, mend text, json text
-- rows: cause, queue or function, seconds since it was found, since it was told (NULL: it was not),
--   sentence, what to do, all of it as JSON; the oldest first, queues last, for whoever defers can
--   make many: 1,000 at most.
-- locks: none. Index: none; all of __deferred_alert
select a.cause, a.name, extract(epoch from clock_timestamp() - a.since)::int8 as since_s,
       extract(epoch from clock_timestamp() - a.reported_at)::int8 as reported_s, a.text, a.mend,
       json_build_object('cause', a.cause, 'name', a.name, 'since', a.since,
                         'reported_at', a.reported_at, 'text', a.text, 'do', a.mend)::text as json
from deferred.__deferred_alert a
where a.ended_at is null
order by a.cause in ('late', 'unserved'), a.since, a.cause, a.name
limit 1000
