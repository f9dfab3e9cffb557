-- run_glance_setup: the settings of run_glance.sql, and no more: each costs a start with nothing
-- due some time. Without sequential scans the one row of __deferred_state, which has no index,
-- looks so dear that the statement would be compiled, for 300 ms.
-- params: none
-- returns: ignored
select set_config('enable_seqscan', 'off', true), set_config('search_path', 'pg_catalog, pg_temp',
    true),
       set_config('statement_timeout', '30s', true), set_config('jit', 'off', true)
