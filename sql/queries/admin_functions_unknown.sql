-- admin_functions_unknown: functions of hot jobs that no worker has, as far as the oldest and the newest $1 jobs tell.
-- $1 jobs to look at from each end (int8)
-- returns function (text), jobs (int8), seconds since the first of them was deferred (int8), there are jobs that were not looked at (bool), the same as a JSON object (text);
--   those with most jobs first, at most 100; nothing where no worker has yet said what it has
-- locks: none. Index: primary keys of __deferred_hot, from both ends, and, for one job of each function, as the view deferred.job; all of __deferred_offer
with looked as materialized (
    (select h.id, h.fn from deferred.__deferred_hot h order by h.id limit $1::int8)
    union
    (select h.id, h.fn from deferred.__deferred_hot h order by h.id desc limit $1)),
unknown as materialized (
    select l.fn, count(*) as jobs, min(l.id) as first
    from looked l
    where l.fn is not null and l.fn not in (select o.fn from deferred.__offered o) and exists (select from deferred.__deferred_offer)
    group by l.fn order by count(*) desc, l.fn limit 100),
figures as (
    select u.fn, u.jobs, extract(epoch from clock_timestamp() - d.created_at)::int8 as oldest_s, (select count(*) >= 2 * $1 from looked) as more
    from unknown u left join lateral (select x.created_at from deferred.job x where x.id = u.first offset 0) d on true)
select f.fn, f.jobs, f.oldest_s, f.more, row_to_json(f)::text
from figures f
order by f.jobs desc, f.fn
