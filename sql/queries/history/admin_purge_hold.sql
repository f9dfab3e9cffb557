-- admin_purge_hold: in the transaction that archives a table which was set aside: nobody else does,
-- and no limit of the server's ends it.
-- params: name text
-- returns: held bool
-- Locks: share update exclusive on that table, until the transaction ends; waits up to 3 s
select deferred.__purge_hold($1) as held
from set_config('statement_timeout', '0', true) as a,
    set_config('idle_in_transaction_session_timeout', '0', true) as b
