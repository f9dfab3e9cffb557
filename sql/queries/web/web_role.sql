-- web_role: have the session act as a role.
-- $1 role (text)
-- returns one row, of no use
-- locks: none
select pg_catalog.set_config('role', $1::text, false)
