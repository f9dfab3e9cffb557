-- admin_server_version: which PostgreSQL is this?
-- params: none
-- returns: version int4
-- Rows: one row: its version as a number, 150004 for 15.4.
-- Locks: none
select current_setting('server_version_num')::int4 as version
