-- web_session: settings of one page's transaction, besides those of session_pin.sql.
-- params: role text, timeout_ms int8
-- returns: ignored
-- $1 '': the role that logged in
-- Locks: none
select set_config('statement_timeout', $2::int8::text, true),
       set_config('lock_timeout', '100', true),
       set_config('enable_bitmapscan', 'off', true),
       set_config('role', coalesce(nullif($1::text, ''), 'none'), true)
