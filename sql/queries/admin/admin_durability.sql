-- admin_durability: what a commit of this session survives.
-- params: none
-- returns: class text, sentence text, standbys text?, hidden int8
-- Rows: one row. Class waiting: synchronous, but no standby is connected. Column hidden counts
--   standbys that this role may not see.
-- Locks: none. Only members of pg_read_all_stats see the name and the progress of a standby.
with standby as (
    select r.application_name as name, r.sync_state as sync, r.state is null as hidden,
           pg_wal_lsn_diff(case when pg_is_in_recovery() then pg_last_wal_replay_lsn()
                                else pg_current_wal_lsn() end, r.replay_lsn)::int8 as behind
    from pg_catalog.pg_stat_replication r order by r.sync_state, r.application_name limit 20),
told as (
    select count(*) filter (where s.hidden) as hidden,
           count(*) filter (where s.sync in ('sync', 'quorum')) as sync,
           string_agg(format('%s (%s, %s behind)', s.name, s.sync,
                             pg_size_pretty(coalesce(s.behind, 0))),
                             ', ') filter (where not s.hidden) as names,
           json_agg(json_build_object('name', s.name, 'sync', s.sync, 'bytes_behind',
                                      s.behind)) filter (where not s.hidden) as standbys
    from standby s)
select c.class,
       case c.class
           when 'none' then 'none: fsync is off, so a crash of the host may destroy the database'
           when 'delayed'
               then
                   'delayed: synchronous_commit is off, so a crash of the server takes what was '
                   'stored within the last second'
           when 'local' then 'local: a commit is on the disk of this server'
           when 'waiting'
               then format('waiting: commits wait for a standby of synchronous_standby_names (%s), '
                           'and none is connected', current_setting('synchronous_standby_names'))
           else format('synchronous: a commit is with a standby too (synchronous_commit %s)',
                       current_setting('synchronous_commit')) end
       || coalesce('; standbys: ' || t.names, '')
       || case when t.hidden > 0
                   then format('; %s standby%s of which no more is seen without pg_read_all_stats',
                               t.hidden, case when t.hidden = 1 then '' else 's' end)
                                   else '' end as sentence,
       t.standbys::text, t.hidden
from told t
cross join lateral (select current_setting('synchronous_standby_names') <> ''
                           and current_setting('synchronous_commit') not in ('off', 'local')
                           as waits) w
cross join lateral (select case when w.waits and t.sync = 0 and t.hidden = 0 then 'waiting'
                                when current_setting('fsync') = 'off' then 'none'
                                when w.waits then 'synchronous'
                                when current_setting('synchronous_commit') = 'off' then 'delayed'
                                else 'local' end as class) c
