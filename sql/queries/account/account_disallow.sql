-- account_disallow: take functions from an account.
-- params: account text, functions text[]
-- returns: as account_allow
-- Locks: the row of the account
select array_to_string(deferred.__account_disallow($1::text, $2::text[]), ' ') as functions
