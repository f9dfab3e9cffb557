-- message_queue_acl: the stored access policies of a queue.
-- params: queue text
-- returns: status int4, acl json?
-- Locks: none
select a.status, a.acl from deferred.__message_queue_acl($1::text) a
