-- worker_listen: have the notifications of deferred.__wake() sent to this session.
-- params: none
-- returns: nothing
-- Locks: none
listen deferred
