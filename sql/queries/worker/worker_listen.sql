-- worker_listen: have the notifications of deferred.__wake() sent to this session.
-- no parameters
-- returns nothing. Locks: none
listen deferred
