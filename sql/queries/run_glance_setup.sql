-- run_glance_setup: the settings of run_glance.sql, and no more: each costs a start with nothing due some time.
-- returns one row, ignored
select set_config('enable_seqscan', 'off', true), set_config('search_path', 'pg_catalog, pg_temp', true),
       set_config('statement_timeout', '30s', true)
