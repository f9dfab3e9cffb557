-- account_rm: remove an account; its queues stay.
-- params: account text
-- returns: ignored
-- Locks: the row of the account
select deferred.__account_rm($1::text)
