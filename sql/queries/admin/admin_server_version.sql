-- admin_server_version: which PostgreSQL is this?
-- no parameters
-- returns one row: its version as a number, 150004 for 15.4 (int4)
-- locks: none
select current_setting('server_version_num')::int4
