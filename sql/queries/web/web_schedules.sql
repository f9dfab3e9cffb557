-- web_schedules: recurring jobs.
-- $1 name (text), NULL: all
-- returns name, rule, zone, function, queue, owner (text), paused (bool), seconds until the next tick (int8, NULL: paused, or there is none any more), since the
--   last (int8, NULL: none), what came of it (text), its job (int8), why no job (text, of one's own roles only), missed, overlap (text), jitter (int8,
--   milliseconds), when it was set first (text); 500 rows at most
-- locks: none
select s.name, s.rule, s.zone, s.fn, s.queue, s.owner::text, s.paused, -deferred.__age_s(s.next_at),
       deferred.__age_s(s.last_at), s.last_what, s.last_job, s.last_error, s.missed, s.overlap, s.jitter_ms,
       to_char(s.created_at, 'YYYY-MM-DD HH24:MI:SS')
from deferred.__schedules() s
where $1::text is null or s.name = $1
order by s.name limit 500
