-- doctor_functions: functions of hot jobs, as far as the oldest and the newest $1 jobs tell, and
-- who has them.
-- params: jobs_max int8
-- returns: fn text, jobs int8, oldest_s int8, any_offers bool, offered_s int8?, host text?
-- Rows: those with most jobs first, at most 1000
-- Locks: none. Index: primary keys of __deferred_hot, from both ends, and, for one job of each
--   function, as the view deferred.job; all of __deferred_offer
with looked as materialized (
    (select h.id, h.fn from deferred.__deferred_hot h order by h.id limit $1::int8)
    union
    (select h.id, h.fn from deferred.__deferred_hot h order by h.id desc limit $1)),
queued as materialized (
    select l.fn, count(*) as jobs, min(l.id) as first from looked l where l.fn is not null
    group by l.fn order by count(*) desc, l.fn limit 1000),
offered as materialized (
    select f.fn collate "C" as fn, max(o.seen_at) as seen_at,
           (array_agg(o.host order by o.seen_at desc))[1] as host
    from deferred.__deferred_offer o cross join lateral unnest(o.fn) f(fn) group by f.fn)
select q.fn, q.jobs, (select deferred.__age_s(j.created_at)
                      from (select x.created_at from deferred.job x
                            where x.id = q.first offset 0) j) as oldest_s,
       exists (select from deferred.__deferred_offer) as any_offers,
       deferred.__age_s(o.seen_at) as offered_s, o.host
from queued q left join offered o on o.fn = q.fn
order by q.jobs desc, q.fn
