-- web_session: settings of one page's transaction.
-- params: role text, timeout_ms int8
-- returns: ignored
-- $1 role to act as, '': the one that logged in. $2 limit of each statement, milliseconds.
-- locks: none
select pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true), pg_catalog.set_config('statement_timeout', $2::int8::text, true),
       pg_catalog.set_config('lock_timeout', '100', true), pg_catalog.set_config('jit', 'off', true), pg_catalog.set_config('TimeZone', 'UTC', true), pg_catalog.set_config('enable_bitmapscan', 'off', true),
       pg_catalog.set_config('role', coalesce(nullif($1::text, ''), 'none'), true)
