-- doctor_direct: the process that serves this session, as worker_direct.sql.
-- params: none
-- returns: pid int4
-- Locks: none
select pg_backend_pid() as pid
