-- web_schedules: recurring jobs.
-- params: name text
-- returns: name text, rule text, zone text, fn text, queue text, owner text, paused bool,
--   next_s int8?, last_s int8?, last_what text, last_job int8?, last_error text, missed text,
--   overlap text, jitter_ms int8, created text
-- $1 NULL: all
-- Rows: at most 500. last_error: only of one's own roles. NULL: paused, or there is no such tick
-- Locks: none
select s.name, s.rule, s.zone, s.fn, s.queue, s.owner::text, s.paused,
       -deferred.__age_s(s.next_at) as next_s,
       deferred.__age_s(s.last_at) as last_s, s.last_what, s.last_job, s.last_error, s.missed,
       s.overlap, s.jitter_ms,
       to_char(s.created_at, 'YYYY-MM-DD HH24:MI:SS') as created
from deferred.__schedules() s
where $1::text is null or s.name = $1
order by s.name limit 500
