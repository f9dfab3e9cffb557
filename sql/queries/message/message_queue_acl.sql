-- message_queue_acl: the stored access policies of a queue.
-- $1 queue (text)
-- returns one row: status (int4), policies (json) as they were set, NULL: none
-- locks: none
select a.status, a.acl from deferred.__message_queue_acl($1::text) a
