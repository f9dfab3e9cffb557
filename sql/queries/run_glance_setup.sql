-- run_glance_setup: the settings of run_glance.sql, and no more: each costs a start with nothing due some time. It has a tenth of
-- a second: mostly it takes a hundredth of that, unless dead rows lie before the first live one that a long snapshot keeps
-- from being removed.
-- returns one row, ignored
select set_config('enable_seqscan', 'off', true), set_config('search_path', 'pg_catalog, pg_temp', true),
       set_config('statement_timeout', '100ms', true)
