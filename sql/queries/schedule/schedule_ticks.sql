-- schedule_ticks: ticks of a schedule that were dealt with, the latest first.
-- $1 name (text), $2 how many (int4)
-- returns tick as clocks of its zone show it, what came of it (text), job id (int8, NULL: none), and the whole as JSON
-- locks: none. Index: primary key of __deferred_tick
select to_char(t.tick at time zone s.zone, 'YYYY-MM-DD HH24:MI:SS'), t.what, t.job_id,
       json_build_object('tick', t.tick, 'what', t.what, 'job', t.job_id, 'previous', t.previous, 'at', t.at)
from deferred.__schedules() s cross join lateral deferred.__schedule_ticks(s.name, $2) t
where s.name = $1
order by t.tick desc
