-- doctor_slots: replication slots that nobody reads from.
-- params: none
-- returns: slot text, kept int8, share float8?, keeps_rows bool
-- Rows: slot, bytes of WAL it keeps, share of max_slot_wal_keep_size that is (NULL: no limit), it
--   keeps dead rows; at most 10.
-- Locks: none
select s.slot_name::text as slot, s.kept, s.kept / nullif(greatest(m.keep, 0), 0)::float8 as share,
       s.xmin is not null as keeps_rows
from (select x.slot_name, x.xmin,
      coalesce(pg_wal_lsn_diff(case when pg_is_in_recovery() then pg_last_wal_replay_lsn()
                                    else pg_current_wal_lsn() end,
                                                            x.restart_lsn), 0)::int8 as kept
      from pg_catalog.pg_replication_slots x where not x.active) s
cross join (select pg_size_bytes(current_setting('max_slot_wal_keep_size')) as keep
            where current_setting('max_slot_wal_keep_size') <> '-1'
            union all select 0 where current_setting('max_slot_wal_keep_size') = '-1') m
order by s.kept desc
limit 10
