-- account_set_properties: replace the service properties of an account.
-- params: account text, properties json
-- returns: found bool
-- rows: one row: false if there is no such account
-- locks: the row of the account
select deferred.__account_properties($1::text, $2::json) as found
