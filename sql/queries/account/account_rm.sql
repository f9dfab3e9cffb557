-- account_rm: remove an account; its queues stay.
-- $1 account (text)
-- returns one row, ignored
-- locks: the row of the account
select deferred.__account_rm($1::text)
