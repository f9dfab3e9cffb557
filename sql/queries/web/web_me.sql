-- web_me: who asks, and what they may.
-- no parameters
-- returns one row: role (text), it is a viewer, a reader, an operator (bool)
-- locks: none
select current_user::text, pg_has_role(current_user, 'deferred_viewer', 'usage'), pg_has_role(current_user, 'deferred_reader', 'usage'),
       pg_has_role(current_user, 'deferred_operator', 'usage')
