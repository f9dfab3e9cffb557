-- worker_direct: the process that serves this session. A pooler tells its clients another number,
-- and shares sessions among them: there, neither locks nor notifications of a session mean
-- anything.
-- params: none
-- returns: pid int4
-- Locks: none
select pg_backend_pid() as pid
