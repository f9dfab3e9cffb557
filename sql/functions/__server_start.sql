-- Transaction ids that had left no trace when a server crashed are given out again. A session behind a pooler may outlive that, and the
-- postmaster goes on; its statistics begin anew.
create or replace function deferred.__server_start() returns timestamptz
language sql stable
as $$
    select greatest(pg_postmaster_start_time(), pg_stat_get_bgwriter_stat_reset_time())
$$;
comment on function deferred.__server_start() is 'start of the server, or end of its last recovery from a crash: what was learnt of transaction ids before means nothing';
grant execute on function deferred.__server_start() to deferred_worker;
