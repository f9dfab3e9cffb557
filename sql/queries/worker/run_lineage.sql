-- run_lineage: which server this is, and which life of it. A promotion raises the timeline; a copy
-- that was left behind keeps the old one. The timeline is that of the WAL being written:
-- pg_control_checkpoint() tells the one before until the first checkpoint after a promotion.
-- params: none
-- returns: system text, timeline int8?
-- Rows: one row. timeline NULL: in recovery
-- Locks: none. Both functions may be called by everybody unless an administrator has revoked that
select c.system_identifier::text as system,
       case when not pg_is_in_recovery()
                then ('x' || left(pg_walfile_name(pg_current_wal_lsn()),
                                  8))::bit(32)::int8 end as timeline
from pg_control_system() c
