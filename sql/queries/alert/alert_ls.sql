-- alert_ls: what is wrong, as it was found last.
-- params: none
-- returns: cause text, name text, since_s int8, reported_s int8?, text text, remedy text, json text
-- Rows: oldest first, at most 1,000; queues last, because producers can make many
-- Locks: none. Index: none; all of __deferred_alert
select a.cause, a.name, deferred.__age_s(a.since) as since_s,
       deferred.__age_s(a.reported_at) as reported_s, a.text, a.remedy,
       json_build_object('cause', a.cause, 'name', a.name, 'since', a.since,
                         'reported_at', a.reported_at, 'text', a.text, 'do', a.remedy)::text as json
from deferred.__deferred_alert a
where a.ended_at is null
order by a.cause in ('late', 'unserved'), a.since, a.cause, a.name
limit 1000
