-- web_role: have the session act as a role.
-- params: role text
-- returns: ignored
-- Locks: none
select pg_catalog.set_config('role', $1::text, false)
