-- schedule_ticks: ticks of a schedule that were dealt with, the latest first.
-- params: name text, ticks_max int4
-- returns: tick text, what text, job_id int8?, json json
-- Rows: ticks as clocks of the zone show them
-- Locks: none. Index: primary key of __deferred_tick
select to_char(t.tick at time zone s.zone, 'YYYY-MM-DD HH24:MI:SS') as tick, t.what, t.job_id,
       json_build_object('tick', t.tick, 'what', t.what, 'job', t.job_id, 'previous', t.previous,
                         'at', t.at) as json
from deferred.__schedules() s cross join lateral deferred.__schedule_ticks(s.name, $2) t
where s.name = $1
order by t.tick desc
