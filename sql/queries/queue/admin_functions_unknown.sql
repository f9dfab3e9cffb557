-- admin_functions_unknown: functions of hot jobs that no worker has, as far as some jobs of each
-- lane tell. Looks at those that were set aside too, and at the first $1 delayed ones.
-- params: jobs_max int8
-- returns: fn text, jobs int8, oldest_s int8, more bool, json text
-- Rows: those with most jobs first, at most 100; none if no worker has reported its functions.
-- Locks: none. Index: what deferred.__ready() reads, and __deferred_hot_delayed. One step of
--   __deferred_hot_limited for each queue and function. For one job of each function, as the view
--   deferred.job. All of __deferred_offer.
with recursive known as materialized (
    select o.fn from deferred.__offered o),
-- A worker that meets a function that no worker has sets the job aside.
apart as (
    (select h.queue, h.fn from deferred.__deferred_hot h
     where h.unknown and h.limited and h.due_at is null and h.concurrency_key is null
       and h.fn is not null
     order by h.unknown, h.queue, h.fn limit 1)
    union all
    select n.queue, n.fn from apart a
    cross join lateral (
        select h.queue, h.fn from deferred.__deferred_hot h
        where h.unknown and h.limited and h.due_at is null and h.concurrency_key is null
          and h.fn is not null and (h.queue, h.fn) > (a.queue, a.fn)
        order by h.unknown, h.queue, h.fn limit 1) n),
looked as materialized (
    select r.id, r.fn from deferred.__ready(null, null, null, null, greatest($1::int8 / 10, 1)) r
    union all
    select h.id, h.fn
    from (select a.queue, a.fn from apart a limit $1) a
    cross join lateral (
        select h.id, h.fn from deferred.__deferred_hot h
        where h.unknown and h.queue = a.queue and h.fn = a.fn and h.limited and h.due_at is null
          and h.concurrency_key is null
        order by h.unknown, h.queue, h.fn, h.priority desc, h.id limit $1) h
    where a.fn not in (select k.fn from known k)
    union all
    (select h.id, h.fn from deferred.__deferred_hot h where h.due_at > now() and h.fn is not null
     order by h.due_at limit $1)),
unknown as materialized (
    select l.fn, count(*) as jobs, min(l.id) as first
    from looked l
    where l.fn not in (select k.fn from known k) and exists (select from deferred.__deferred_offer)
    group by l.fn order by count(*) desc, l.fn limit 100),
figures as (
    select u.fn, u.jobs, deferred.__age_s(d.created_at) as oldest_s,
           (select count(*) >= $1 / 10 from looked) as more
    from unknown u left join lateral (select x.created_at from deferred.job x
                                      where x.id = u.first offset 0) d on true)
select f.fn, f.jobs, f.oldest_s, f.more, row_to_json(f)::text as json
from figures f
order by f.jobs desc, f.fn
