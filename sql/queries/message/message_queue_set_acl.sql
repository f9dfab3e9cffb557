-- message_queue_set_acl: replace the stored access policies of a queue.
-- $1 queue (text), $2 policies (json); NULL: none
-- returns one row: status (int4)
-- locks: the row of the queue
select deferred.__message_queue_acl($1::text, $2::json)
