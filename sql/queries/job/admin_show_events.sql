-- admin_show_events: the events that a job waits for, or waited for.
-- params: job int8
-- returns: event text, name text, said text, until text?, on_timeout text?, waits bool
-- Rows: at most 1,000. Column said: what became of it; name: what the job calls it, if not by its
--   name; until: the time limit. The job waits for it if waits is true.
-- Locks: none. Index: primary keys of __deferred_awaited, __deferred_edge, __deferred_wait and
--   __deferred_event
select a.name as event, case when e.name <> a.name then e.name else '' end as name,
       case when v.id is not null then format('sent %s by %s', to_char(v.sent_at,
                                              'YYYY-MM-DD HH24:MI:SS TZH:TZM'), v.sent_by)
            when e.what = 'f' then 'not sent in time'
            when w.id is null then 'not waited for'
            else 'not sent' end as said,
       to_char(a.until, 'YYYY-MM-DD HH24:MI:SS TZH:TZM') as until,
       case when a.until is not null then deferred.__on_timeout(a.on_timeout) end as on_timeout,
       a.sent is null and w.id is not null as waits
from deferred.__deferred_awaited a
join deferred.__deferred_edge e on e.child = a.child and e.parent = a.parent
left join deferred.__deferred_wait w on w.id = a.child
left join deferred.__deferred_event v on v.id = a.sent
where a.child = $1::int8 order by a.parent desc
