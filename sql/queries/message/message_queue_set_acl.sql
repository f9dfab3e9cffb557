-- message_queue_set_acl: replace the stored access policies of a queue.
-- params: queue text, acl json
-- returns: status int4
-- Locks: the row of the queue
select deferred.__message_queue_acl($1::text, $2::json) as status
