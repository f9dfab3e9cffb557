-- why_gone: jobs that a worker holds which is gone.
-- params: queue text
-- returns: id int8, pid int8, host text, jobs int8, lease_s int8
-- $1 NULL: all
-- Rows: at most one row, for the worker that holds most of them: its id, pid, host. Then how many
--   of these jobs it holds, and seconds until it holds none any more.
-- Locks: none. Index: primary keys of __deferred_hot and __deferred_worker; all of __deferred_lease
select w.id, w.pid::int8, w.host, count(*) as jobs,
       extract(epoch from max(h.expires_at) - clock_timestamp())::int8 as lease_s
from deferred.__held h
join deferred.__deferred_worker w on w.id = h.worker
where ($1::text is null or h.queue = $1)
  and (w.ended_at is not null or (w.watch is not null
                                    and w.watch not in (select x.watch from deferred.__watching x)))
group by w.id
order by count(*) desc, w.id
limit 1
