-- web_session: settings of one page's transaction.
-- $1 role to act as (text), '': the one that logged in. $2 limit of each statement, milliseconds (int8)
-- returns one row, of no use
-- locks: none
select pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true), pg_catalog.set_config('statement_timeout', $2::int8::text, true),
       pg_catalog.set_config('lock_timeout', '100', true), pg_catalog.set_config('jit', 'off', true), pg_catalog.set_config('TimeZone', 'UTC', true), pg_catalog.set_config('enable_bitmapscan', 'off', true),
       pg_catalog.set_config('role', coalesce(nullif($1::text, ''), 'none'), true)
