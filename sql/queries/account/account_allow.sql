-- account_allow: give an account functions that its messages may become calls of.
-- params: account text, functions text[]
-- returns: functions text
-- $2 each a name or PREFIX.*
-- Rows: one row: all that it has now, blanks between
-- Locks: the row of the account
select array_to_string(deferred.__account_allow($1::text, $2::text[]), ' ') as functions
