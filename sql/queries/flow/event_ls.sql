-- event_ls: names of events that are kept or waited for.
-- params: events_max int4
-- returns: event text, role text, jobs int8, sent text, sent_by text, kept_until text, json text
-- Rows: those sent last come first. Column jobs: how many jobs wait, of the first 10,000 that wait
--   for any event. Columns sent, sent_by and kept_until: of the event that was sent last, if it is
--   kept.
-- Locks: none. Index: __deferred_event_name, __deferred_awaited_name, primary key of
--   __deferred_wait
select e.name as event, e.owner::text as role, e.jobs,
       coalesce(to_char(e.sent_at, 'YYYY-MM-DD HH24:MI:SS TZH:TZM'), '') as sent,
       coalesce(e.sent_by::text, '') as sent_by,
       coalesce(to_char(e.kept_until, 'YYYY-MM-DD HH24:MI:SS TZH:TZM'), '') as kept_until,
       json_build_object('event', e.name, 'role', e.owner, 'jobs', e.jobs, 'sent_at', e.sent_at,
                         'sent_by', e.sent_by, 'kept_until', e.kept_until)::text as json
from (select name, owner, coalesce(a.jobs, 0)::int8 as jobs, v.sent_at, v.sent_by, v.kept_until
      from (select distinct on (x.owner, x.name) x.*
            from (select y.owner, y.name, y.sent_at, y.sent_by, y.kept_until, y.id
                  from deferred.__deferred_event y where y.kept_until > clock_timestamp()) x
            order by x.owner, x.name, x.sent_at desc, x.id desc) v
      full join (select x.owner, x.name, count(*) as jobs
                 from (select y.owner, y.name from deferred.__deferred_awaited y
                       join deferred.__deferred_wait w on w.id = y.child
                       where y.sent is null limit 10000) x
                 group by x.owner, x.name) a using (owner, name)) e
order by e.sent_at desc nulls last, e.name, e.owner limit $1::int4
