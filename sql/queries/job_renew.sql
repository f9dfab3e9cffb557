-- job_renew: extend the lease of claimed jobs, and learn what became of those that are not ours any more. The row moves to the
-- tail of its lane, so that it does not hold back the place from which claims start to look. A lease that the job itself has
-- made longer (deferred.extend()) stays as it is.
-- $1 id int8[], $2 receipt int8[], $3 lease in milliseconds, int8[]
-- returns one row for each of them: id (int8), receipt (int8), still ours (bool), milliseconds until the lease ends (int8; NULL:
--   not renewed, because somebody else has the row locked, say a cancel not yet committed), and for one that is not ours what
--   the log says of that claim (text; NULL: nothing)
-- locks: the hot rows; rows locked by others are left alone, or one of them would cost all the others their
--   lease. Index: primary key of __deferred_hot, __deferred_log_job
with r as materialized (
    select * from unnest($1::int8[], $2::int8[], $3::int8[]) as r(id, receipt, lease_ms)),
free as materialized (
    select h.id, r.lease_ms
    from r join deferred.__deferred_hot h on h.id = any (array[r.id]) and h.receipt = r.receipt and h.visible_at > now()
    for update of h skip locked),
renewed as (
    update deferred.__deferred_hot h
    set visible_at = greatest(h.visible_at, now() + free.lease_ms * interval '1 millisecond'), xid = pg_current_xact_id()
    from free where h.id = any (array[free.id])
    returning h.id, h.receipt, (extract(epoch from h.visible_at - now()) * 1000)::int8 as left_ms)
select n.id, n.receipt, true, n.left_ms, null from renewed n
union all
select r.id, r.receipt, h.id is not null, null,
       case when h.id is null then (select l.outcome from deferred.__deferred_log l
                                    where l.job_id = r.id and l.receipt = r.receipt order by l.finished_at desc limit 1) end
from r left join deferred.__deferred_hot h on h.id = any (array[r.id]) and h.receipt = r.receipt and h.visible_at > now()
where (r.id, r.receipt) not in (select n.id, n.receipt from renewed n)
