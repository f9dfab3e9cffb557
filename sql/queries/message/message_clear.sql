-- message_clear: one step of clearing a queue.
-- $1 queue (text), $2 last id (int8); NULL: what is there now, $3 most jobs (int4)
-- returns one row: status (int4), jobs cleared (int8), last id (int8, to be handed in again), there is more (bool)
-- locks: the rows; those locked by others are left for the next step
-- Index: __deferred_hot_message and the others by queue; the delayed calls of all queues are looked through
select c.status, c.cleared, c.upto, c.more from deferred.__message_clear($1::text, $2::int8, $3::int4) c
