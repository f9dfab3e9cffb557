-- doctor_pidfiles: lines of a crontab that share a pidfile, as the newest 2,000 runs of the last
-- day tell. Such lines differ in what they serve and come by turns, so that each ends the copy of
-- the other. One line whose settings were changed once or twice is not such a case.
-- params: none
-- returns: instance text, kinds int8
-- Rows: at most 5
-- Locks: none. Index: primary key of __deferred_worker, from its end
with run as materialized (
    select split_part(w.instance, '#', 1) as name, w.id,
           row(w.queues, w.cnt, w.runners, w.mode)::text as line
    from (select x.* from deferred.__deferred_worker x order by x.id desc limit 2000) w
    where w.started_at > now() - interval '1 day' and w.mode is distinct from 'sql'),
turn as (
    select r.name, r.line, lag(r.line) over (partition by r.name order by r.id) <> r.line as other
    from run r)
select t.name as instance, count(distinct t.line) as kinds
from turn t
group by t.name
having count(*) filter (where t.other) >= 4
order by count(*) filter (where t.other) desc, t.name
limit 5
