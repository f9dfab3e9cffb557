-- message_clear: one step of clearing a queue.
-- params: queue text, upto int8?, jobs_max int4
-- returns: status int4, cleared int8, upto int8, more bool
-- $2 NULL: what is there now.
-- Rows: one row. The last id is $2 of the next step.
-- Locks: the rows; those locked by others are left for the next step.
-- Index: __deferred_hot_message and the others by queue; the delayed calls of all queues are looked
--   through.
select c.status, c.cleared, c.upto, c.more from deferred.__message_clear($1::text, $2::int8,
    $3::int4) c
