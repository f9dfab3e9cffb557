-- job_lost: jobs whose lease has ended without a result are ready again.
-- params: max_attempts int4, within_ms int8
-- returns: worker int8, who text, id int8?, fn text, attempt int4, final bool, recorded bool
-- $1   default of max_attempts.
-- $2   only leases that ended within this number of milliseconds. 0: all. Under a held snapshot the
--   index begins with dead entries of all leases removed since it was taken.
-- Rows: one for each job, by worker. Columns worker, who: the worker that held it, and its host,
--   pid and pidfile. Column recorded: an attempt was recorded.
-- Locks: those leases and their hot rows; those locked by others are left to them. Index:
--   __deferred_lease_expires, primary key of __deferred_worker.
select l.worker, case when w.id is null then 'not known'
                      else format('%s pid %s, %s', w.host, w.pid,
                                  substring(w.instance from '^[^:]*:(.*)#[0-9]+[.][0-9]+@'))
                                      end as who,
       l.id, l.fn, l.attempt, l.final, l.recorded
from (select 1 where exists (
    select from deferred.__deferred_lease x
    where x.expires_at < now() and x.expires_at >= case when $2::int8 = 0 then '-infinity'
                                                        else now() - $2::int8 * interval
                                                            '1 millisecond' end)) ended
cross join lateral deferred.__lost(null, 'lost', $1::int4) l
left join deferred.__deferred_worker w on w.id = l.worker
order by l.worker, l.id
