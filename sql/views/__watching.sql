-- The numbers of workers whose sessions are there: each holds the advisory lock of its number
-- (worker_register.sql). A standby does not see the sessions, so all count as there.
create or replace view deferred.__watching as
    select l.objid::bigint as watch from pg_catalog.pg_locks l
    where l.locktype = 'advisory' and l.classid = 1145390673 and l.objsubid = 2 and l.granted
      and l.database = (select d.oid from pg_catalog.pg_database d
                        where d.datname = current_database())
    union all
    select w.watch from deferred.__deferred_worker w
    where pg_is_in_recovery() and w.ended_at is null and w.watch is not null;
grant select on deferred.__watching to deferred_worker, deferred_viewer;
