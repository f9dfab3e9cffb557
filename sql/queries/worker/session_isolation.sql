-- session_isolation: the isolation level of one transaction of a worker behind a pooler, sent
-- before session_setup.sql. A claim must see what was committed while it waited. No query may come
-- before it in its transaction, so it is not one.
-- params: none
-- returns: nothing
set transaction_isolation = 'read committed'
