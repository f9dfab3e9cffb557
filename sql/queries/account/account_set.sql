-- account_set: replace keys of an account, or have its requests refused or taken again.
-- params: account text, key1 bytea, key2 bytea, enabled int4?
-- returns: ignored
-- Keys are encrypted. $4 1: requests are taken, 0: refused. NULL stays as it is.
-- Locks: the row of the account
select deferred.__account_set($1::text, $2::bytea, $3::bytea, $4::int4 = 1)
