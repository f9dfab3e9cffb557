-- account_set: replace keys of an account, or have its requests refused or taken again.
-- $1 account (text), $2 and $3 its keys (bytea, encrypted), $4 1: requests are taken, 0: refused (int4); what is NULL stays as it is
-- returns one row, ignored
-- locks: the row of the account
select deferred.__account_set($1::text, $2::bytea, $3::bytea, $4::int4 = 1)
