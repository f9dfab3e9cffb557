-- doctor_workers: do jobs wait that any worker could run, and has one been seen?
-- params: none
-- returns: ready int8, ready_s int8?, seen_s int8?, busy bool
-- Rows: one row. The first column counts the ready jobs among the oldest 1,000. The second is the
--   seconds that the first of them has waited (NULL: no ready job). The third is the seconds since
--   a worker was seen (NULL: never). The last says whether a worker holds a job now.
-- Locks: none. Index: primary keys of __deferred_hot and __deferred_queue,
--   __deferred_lease_expires, primary key of __deferred_worker from its end.
select count(r.since) as ready, deferred.__age_s(min(r.since)) as ready_s,
       (select extract(epoch from clock_timestamp() - max(w.seen_at))::int8
        from (select x.seen_at from deferred.__deferred_worker x order by x.id desc
              limit 1000) w) as seen_s,
       exists (select from deferred.__deferred_lease l
               where l.expires_at > clock_timestamp()) as busy
from (select coalesce(h.due_at, h.visible_at) as since
      from (select x.id, x.queue, x.fn, x.due_at, x.visible_at, x.limited
            from deferred.__deferred_hot x order by x.id limit 1000) h
      left join deferred.__deferred_queue q on q.name = h.queue
      where h.fn is not null and not h.limited and (h.due_at is null
                                                    or h.due_at <= clock_timestamp())
                                                    and deferred.__is_paused(q) is not true
        and h.id not in (select k.id from deferred.__held k)
        and (h.fn in (select o.fn from deferred.__offered o)
             or not exists (select from deferred.__deferred_offer))) r
