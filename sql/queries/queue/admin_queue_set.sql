-- admin_queue_set: change settings of a queue, and wake idle workers: it may have been paused or
-- full.
-- params: queue text, names text[], values text[], metadata json, create int4, user text
-- returns: ignored
-- $3 in the units of the columns; NULL: the default. $4 NULL: as $2 and $3 say. $5 1: add the
--   queue.
-- Locks: the row of the queue, which no claim and no deferral waits for.
select deferred.__queue_set($1::text, s.settings, $5::int4 = 1), deferred.__wake($1::text),
       deferred.__act_note($6::text || ': deferred queue ' || s.verb, s.verb, queue => $1,
                           settings => case when s.verb = 'set' then s.settings end)
from (select (jsonb_object($2::text[], $3::text[]) || case when $4::json is null then '{}'
    else jsonb_build_object('metadata', $4::json) end)::json as settings,
             case when $2 <> '{paused}' then 'set' when $3[1] = 'true' then 'pause'
                  else 'resume' end as verb offset 0) s
