-- admin_status: the figures that are not of one queue.
-- params: none
-- returns: version int4, workers int8, gone_json text?, gone_text text?
-- Rows: one row. gone_json, gone_text: live workers whose session is gone; NULL: none
-- Locks: advisory, until the transaction ends: (1145390673, number), shared, of those workers.
--   Index: __deferred_worker_alive, __deferred_lease_worker. A standby does not know what is locked
--   on its primary: there all are taken to live
with gone as materialized (
    select w.id, w.host, w.pid,
           substring(w.instance from '^[^:]*:(.*)#[0-9]+[.][0-9]+@') as pidfile,
           coalesce((select sum(cardinality(l.ids)) from deferred.__deferred_lease l
                     where l.worker = w.id), 0)::int8 as jobs,
           (select -deferred.__age_s(max(l.expires_at)) from deferred.__deferred_lease l
            where l.worker = w.id) as seconds
    from deferred.__deferred_worker w
    where w.ended_at is null and w.watch is not null and not pg_is_in_recovery()
      and pg_try_advisory_xact_lock_shared(1145390673, w.watch))
select (select coalesce(max(m.version), 0) from deferred.__deferred_migration m)::int4 as version,
       (select count(*) from deferred.__deferred_worker w
        where w.ended_at is null) - (select count(*) from gone) as workers,
       (select json_agg(json_build_object('worker', g.id, 'host', g.host, 'pid', g.pid, 'pidfile',
                                          g.pidfile, 'jobs', g.jobs, 'lease_seconds', g.seconds)
                        order by g.id)::text from gone g) as gone_json,
       (select string_agg(format('worker %s (%s pid %s, %s) has no session, and holds %s job%s%s',
                                 g.id, g.host, g.pid, g.pidfile, g.jobs,
                                 case when g.jobs = 1 then '' else 's' end,
                                 case when g.seconds > 0 then format(' for up to %s s more',
                                     g.seconds) else '' end), E'\n' order by g.id)
                                         from gone g) as gone_text
