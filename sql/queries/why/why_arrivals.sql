-- why_arrivals: how many jobs arrived a minute in the last 15, and in the day before.
-- params: queue text
-- returns: per_min float8?, before_per_min float8?, who text?
-- $1 NULL: all.
-- Rows: one row. before_per_min: in the day before; NULL: not known, or a queue was asked for. who:
--   deferred most of them, and what.
-- Locks: none. Index: primary key of __deferred: the newest 2,000 jobs, and some 60 steps to find
--   the one of a day ago.
with newest as materialized (
    select d.id, d.created_at, d.queue, d.fn, d.created_by from deferred.__deferred d
    order by d.id desc limit 2000),
recent as materialized (
    select n.* from newest n where n.created_at > now() - interval '15 min'
        and ($1::text is null or n.queue = $1)),
seen as materialized (
    select least(15, extract(epoch from now() - min(n.created_at)) / 60) as minutes,
           min(n.created_at) > now() - interval '15 min'
               and count(*) = 2000 as cut, max(n.id) as last
    from newest n),
first as materialized (
    select d.id, d.created_at from deferred.__deferred d order by d.id limit 1),
day as materialized (
    select deferred.__fold_id(f.id, now() - interval '1 day') as id,
           least(1440, extract(epoch from now() - f.created_at) / 60) - 15 as minutes from first f),
most as materialized (
    select r.created_by, r.fn, count(*) as n from recent r group by r.created_by, r.fn
    order by count(*) desc limit 1)
select (select count(*) from recent)::float8
           / greatest(case when s.cut then s.minutes else 15 end, 0.1) as per_min,
       case when $1 is null and d.minutes > 15 and not s.cut
            then greatest(0, s.last - d.id - (select count(*) from recent))::float8
                 / d.minutes end as before_per_min,
       (select format('%s, who deferred %s', m.created_by, coalesce(m.fn, 'messages'))
        from most m) as who
from seen s left join day d on true
