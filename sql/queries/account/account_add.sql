-- account_add: add an account.
-- params: account text, key1 bytea, key2 bytea
-- returns: ignored
-- Locks: none but of the row added
select deferred.__account_add($1::text, $2::bytea, $3::bytea)
