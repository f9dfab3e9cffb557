-- why_steps: do all workers that serve a queue wait for others of their group?
-- params: queue text
-- returns: group_name text, waited_for text
-- Locks: none. All of __deferred_track and of __deferred_worker what lives: short
with alive as materialized (
    select w.id, w.host, w.pid, t.group_name, t.round, t.made, t.lease_until,
           g.round as group_round, g.steps, w.queues
    from deferred.__deferred_worker w
    left join deferred.__deferred_track t on t.worker = w.id and t.lease_until > clock_timestamp()
    left join deferred.__deferred_group g on g.name = t.group_name
    where w.ended_at is null),
waits as (
    select s.group_name from alive s
    where s.queues is null or $1::text = any (s.queues)
    group by s.group_name
    having bool_and(s.group_name is not null and s.round = s.group_round and s.made >= s.steps))
select w.group_name,
       string_agg(format('worker %s (%s pid %s)', b.id, b.host, b.pid), ', ') as waited_for
from (select max(w.group_name) as group_name, count(*) as n from waits w) w
join alive b on b.group_name = w.group_name and not (b.round = b.group_round and b.made >= b.steps)
where w.n = 1 and not exists (select from alive a where (a.queues is null or $1 = any (a.queues))
                              and a.group_name is distinct from w.group_name)
group by w.group_name
