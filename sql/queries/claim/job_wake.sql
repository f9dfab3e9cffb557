-- job_wake: jobs given back by a worker that goes: others may be asleep.
-- params: ids int8[]
-- returns: ignored
-- Locks: none. Index: primary key of __deferred_hot
select deferred.__wake(q.queue)
from (select distinct h.queue from unnest($1::int8[]) i
      join deferred.__deferred_hot h on h.id = any (array[i])
      where (h.due_at is null or h.due_at < now() + interval '1 minute')) q
