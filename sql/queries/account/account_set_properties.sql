-- account_set_properties: replace the service properties of an account.
-- params: account text, properties json
-- returns: found bool
-- Rows: one row: false if there is no such account
-- Locks: the row of the account
select deferred.__account_properties($1::text, $2::json) as found
