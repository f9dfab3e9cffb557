-- doctor_slots: replication slots that nobody reads from.
-- no parameters
-- returns slot (text), bytes of WAL it keeps (int8), share of max_slot_wal_keep_size that is (float8; NULL: no limit), it keeps dead rows (bool);
--   at most 10
-- locks: none
select s.slot_name::text, s.kept, s.kept / nullif(greatest(m.keep, 0), 0)::float8, s.xmin is not null
from (select x.slot_name, x.xmin, coalesce(pg_wal_lsn_diff(case when pg_is_in_recovery() then pg_last_wal_replay_lsn() else pg_current_wal_lsn() end,
                                                            x.restart_lsn), 0)::int8 as kept
      from pg_catalog.pg_replication_slots x where not x.active) s
cross join (select pg_size_bytes(current_setting('max_slot_wal_keep_size')) as keep where current_setting('max_slot_wal_keep_size') <> '-1'
            union all select 0 where current_setting('max_slot_wal_keep_size') = '-1') m
order by s.kept desc
limit 10
