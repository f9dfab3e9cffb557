-- doctor_direct: the process that serves this session, as worker_direct.sql.
-- no parameters
-- returns one row: process id (int4)
-- locks: none
select pg_backend_pid()
