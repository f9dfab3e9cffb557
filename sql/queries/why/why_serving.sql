-- why_serving: workers that serve queues, as far as the newest 2,000 registrations show.
-- params: queues text[]
-- returns: queue text, alive bool, others bool, seen_s int8?, gap_s int8?, started_s int8?,
--   instance text?, service bool, role text?, worker_lacks text?
-- Rows: one for each queue. The instance is the one that served the queue last.
-- - others: workers for other queues were seen
-- - seen_s: since a worker that serves the queue was seen; NULL: never
-- - gap_s: usual seconds from one start of the instance to the next; NULL: not known
-- - role: of the instance, if that role may not run jobs
-- - worker_lacks: statements that give deferred_worker back what it needs; NULL: it has all
-- Locks: none. Index: primary key of __deferred_worker, from its end
with recent as materialized (
    select w.id, w.host, split_part(w.instance, '#', 1) as name, w.started_at, w.seen_at,
           w.ended_at, w.queues, w.mode in ('loop', 'listen') as service, w.role,
           -- A service that has not reported for a while does not live, though nobody has buried
           -- it.
           -- A run whose host was booted since, or whose session is gone, does not live either.
           w.ended_at is null and (w.watch is null
                                   or w.watch in (select x.watch from deferred.__watching x))
               and not (w.seen_at > w.started_at
                        and w.seen_at < clock_timestamp() - interval '150 s')
               and split_part(w.instance, '@', 2)
                   = first_value(split_part(w.instance, '@', 2))
                     over (partition by w.host order by w.id desc) as alive
    from (select x.* from deferred.__deferred_worker x order by x.id desc limit 2000) w),
-- Runs that had nothing to do do not register: of the gaps the small ones tell how often one
-- starts.
gaps as materialized (
    select g.name, percentile_disc(0.25) within group (order by g.gap_s) as gap_s, count(*) as n
    from (select r.name, extract(epoch
                                 from r.started_at - lag(r.started_at) over (partition by r.name
                                     order by r.id))::int8 as gap_s from recent r) g
    where g.gap_s is not null
    group by g.name)
select n.name as queue, coalesce(s.alive, false) as alive, s.seen_s is null
    and exists (select from recent) as others, s.seen_s, g.gap_s, s.started_s, s.instance,
    coalesce(s.service, false) as service,
       case when not exists (select from pg_catalog.pg_roles p
                             where p.rolname = s.role
                               and (p.rolsuper or pg_has_role(p.oid, 'deferred_worker', 'usage')
                                                           or pg_has_role(p.oid, 'deferred_owner',
                                                               'usage'))) then quote_ident(s.role)
                                                                   end as role,
       deferred.__worker_lacks() as worker_lacks
from unnest($1::text[]) n(name)
left join lateral (
    select bool_or(r.alive) as alive,
           extract(epoch from clock_timestamp() - max(case when r.alive then clock_timestamp()
               else greatest(r.seen_at, r.ended_at) end))::int8 as seen_s,
           extract(epoch from clock_timestamp() - max(r.started_at))::int8 as started_s,
           (array_agg(r.name order by r.alive desc, r.id desc))[1] as instance,
           (array_agg(r.service order by r.alive desc, r.id desc))[1] as service,
           (array_agg(r.role order by r.id desc))[1] as role
    from recent r where r.queues is null or n.name = any (r.queues)) s on true
left join gaps g on g.name = s.instance and g.n >= 3
