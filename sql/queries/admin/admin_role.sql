-- admin_role: has who acts the rights of a role?
-- params: role text
-- returns: role text, has_rights bool
-- Rows: one row: the role that acts, quoted if necessary; it has the rights, or $1 does not exist
-- Locks: none
select quote_ident(current_user) as role,
       coalesce(pg_has_role(current_user, to_regrole($1::text)::oid, 'usage'), true) as has_rights
