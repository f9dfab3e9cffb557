-- account_add: add an account.
-- $1 account (text), $2 and $3 its keys (bytea, encrypted)
-- returns one row, ignored
-- locks: none but of the row added
select deferred.__account_add($1::text, $2::bytea, $3::bytea)
