-- account_set_properties: replace the service properties of an account.
-- $1 account (text), $2 properties (json)
-- returns one row: false if there is no such account (bool)
-- locks: the row of the account
select deferred.__account_properties($1::text, $2::json)
