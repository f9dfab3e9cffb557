-- account_set: replace keys of an account, or have its requests refused or taken again.
-- params: account text, key1 bytea, key2 bytea, enabled int4?
-- returns: ignored
-- $1 account, $2 and $3 its keys (encrypted), $4 1: requests are taken, 0: refused; what is NULL
--   stays as it is.
-- locks: the row of the account
select deferred.__account_set($1::text, $2::bytea, $3::bytea, $4::int4 = 1)
