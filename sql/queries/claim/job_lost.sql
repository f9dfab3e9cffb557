-- job_lost: jobs whose lease has ended without a result are ready again.
-- $1 default of max_attempts, int4   $2 only those that ended within so many milliseconds, int8; 0: all. Under a held snapshot the index
--   begins with all that are done with since it was taken
-- returns one row a job, by worker: worker that held it (int8), and who that was, text: host, pid, pidfile;
--   id (int8), fn (text), attempt (int4), final (bool), an attempt was recorded (bool)
-- locks: those leases and their hot rows; those locked by others are left to them. Index: __deferred_lease_expires,
--   primary key of __deferred_worker
select l.worker, case when w.id is null then 'not known' else format('%s pid %s, %s', w.host, w.pid, substring(w.instance from '^[^:]*:(.*)#[0-9]+[.][0-9]+@')) end,
       l.id, l.fn, l.attempt, l.final, l.recorded
from (select 1 where exists (
    select from deferred.__deferred_lease x
    where x.expires_at < now() and x.expires_at >= case when $2::int8 = 0 then '-infinity' else now() - $2::int8 * interval '1 millisecond' end)) ended
cross join lateral deferred.__lost(null, 'lost', $1::int4) l
left join deferred.__deferred_worker w on w.id = l.worker
order by l.worker, l.id
