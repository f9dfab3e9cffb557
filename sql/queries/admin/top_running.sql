-- top_running: what workers are at, longest first.
-- params: queue text, jobs_max int8
-- returns: id int8, fn text, queue text, claimed_s int8, lease_s int8, host text, pid int8,
--   progress text, json text
-- Locks: none. Index: __deferred_lease_expires; primary keys of __deferred_hot, __deferred_worker
--   and __deferred_progress
with held as materialized (
    select distinct on (h.id) h.id, h.fn, h.queue, h.attempt, h.worker, h.claimed_at, h.expires_at
    from deferred.__held h where $1::text is null or h.queue = $1 order by h.id, h.expires_at desc),
longest as materialized (
    select h.* from held h order by h.claimed_at, h.id limit $2::int8),
figures as (
    select l.id, l.fn, l.queue,
           deferred.__age_s(l.claimed_at) as claimed_s,
           -deferred.__age_s(l.expires_at) as lease_s, w.host, w.pid,
           nullif(concat_ws(', ', concat_ws(' of ', p.done::text, p.total::text), p.text),
                  '') as progress
    from longest l
    left join deferred.__deferred_worker w on w.id = l.worker
    left join deferred.__deferred_progress p on p.job_id = l.id and p.attempt = l.attempt)
select f.id, f.fn, f.queue, f.claimed_s, f.lease_s, f.host, f.pid::int8, f.progress,
       row_to_json(f)::text as json
from figures f
order by f.claimed_s desc, f.id
