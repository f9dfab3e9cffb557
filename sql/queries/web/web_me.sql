-- web_me: who asks, and what they may.
-- params: none
-- returns: role text, viewer bool, reader bool, operator bool
-- Locks: none
select current_user::text as role, pg_has_role(current_user, 'deferred_viewer', 'usage') as viewer,
       pg_has_role(current_user, 'deferred_reader', 'usage') as reader,
       pg_has_role(current_user, 'deferred_operator', 'usage') as operator
