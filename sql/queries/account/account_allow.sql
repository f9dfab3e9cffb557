-- account_allow: give an account functions that its messages may become calls of.
-- $1 account (text), $2 functions (text[]), each a name or PREFIX.*
-- returns one row: all that it has now, blanks between (text)
-- locks: the row of the account
select array_to_string(deferred.__account_allow($1::text, $2::text[]), ' ')
