-- web_running: what workers hold just now, longest first.
-- params: hidden_fns text[]
-- returns: id int8, queue text, fn text, attempt int4, worker text, held_s int8, lease_s int8,
--   done int8?, total int8, text text
-- $1: their progress texts are left out, and those of jobs that the system deferred
-- Rows: at most 200
-- Locks: none. Index: __deferred_lease_expires, primary keys of __deferred_hot, __deferred_progress
--   __deferred_worker and __deferred
select h.id, h.queue, h.fn, h.attempt, concat_ws(' on ', h.worker, w.host) as worker,
       deferred.__age_s(h.claimed_at) as held_s,
       -deferred.__age_s(h.expires_at) as lease_s, p.done, p.total,
       case when cardinality($1::text[]) = 0 or p.text is null then p.text
            when h.fn <> all ($1) and (select d.created_by from deferred.__deferred d
                                       where d.id = h.id)
                 <> 'deferred_owner' then p.text end as text
from (select distinct on (x.claimed_at, x.id) x.* from (select y.* from deferred.__held y
                                                        limit 5000) x order by x.claimed_at, x.id
                                                            limit 200) h
left join deferred.__deferred_worker w on w.id = h.worker
left join deferred.__deferred_progress p on p.job_id = h.id and p.attempt = h.attempt
order by h.claimed_at, h.id
