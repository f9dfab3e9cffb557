-- admin_role: has who acts the rights of a role?
-- $1 role (text)
-- returns one row: the role that acts, quoted where it has to be (text), it has them, or there is no such role (bool)
-- locks: none
select quote_ident(current_user), coalesce(pg_has_role(current_user, to_regrole($1::text)::oid, 'usage'), true)
