-- account_disallow: take functions from an account.
-- $1 account (text), $2 functions (text[]), each a name or PREFIX.*
-- returns one row: all that it has now, blanks between (text)
-- locks: the row of the account
select array_to_string(deferred.__account_disallow($1::text, $2::text[]), ' ')
