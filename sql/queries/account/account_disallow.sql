-- account_disallow: take functions from an account.
-- params: account text, functions text[]
-- returns: as account_allow
-- $1 account, $2 functions, each a name or PREFIX.*.
-- rows: one row: all that it has now, blanks between.
-- locks: the row of the account
select array_to_string(deferred.__account_disallow($1::text, $2::text[]), ' ') as functions
