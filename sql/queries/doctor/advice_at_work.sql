-- advice_at_work: the advice that is followed: of those with the same lines the first one, behind which workers have registered that have these settings; for cron's lines also
-- at the time of a tick, for when a worker is started is all that it tells of that. Clocks of whole and half hours are as good as UTC.
-- $1 queue it was asked for, text; NULL: all
-- returns one row: advice (int8; NULL: none was given, or none is followed), when it was given (text), who asked, queue (text), share (float8), within, microseconds (int8), headroom (float8),
--   lines as JSON, one to a line (text), predicted of half of the jobs, of 95 %, of the share in each queue, bound, microseconds (int8; NULL: some never began), attempts an hour (float8),
--   how many lines (int4), workers that have its settings (int8), of how many pid files (int8), the first began, the last was seen, or the time while they are at work (timestamptz), the first began, the last was seen (text),
--   one of them is there or was in the last hour or in three intervals (bool), workers since then that serve the same and have others (int8), advices that were given (int8), when the last one (text)
-- locks: none. Index: primary key of __deferred_worker from its end, of which the newest 20,000 count
with given as materialized (
    select a.* from deferred.__deferred_advice a where a.queue is not distinct from $1::text),
kinds as materialized (
    select g.* from (select distinct on (x.interval_us, x.cnt, x.runners, x.instances) x.* from given x order by x.interval_us, x.cnt, x.runners, x.instances, x.id) g
    order by g.id desc limit 20),
workers as materialized (
    select w.started_at, coalesce(w.ended_at, w.seen_at) as seen_at, w.ended_at is null as alive, w.instance, w.queues, w.cnt, w.runners, w.mode
    from (select x.* from deferred.__deferred_worker x order by x.id desc limit 20000) w),
served as materialized (
    select k.id, w.*,
           w.runners = k.runners and w.queues is not distinct from case when k.queue is not null then array[k.queue] end
           and case when k.interval_us = 0 then w.mode = 'listen'
                    else w.mode = 'run' and w.cnt = k.cnt
                         and mod((extract(epoch from w.started_at) * 1000000)::int8 + 10000000, gcd(k.interval_us, 1800000000)) < 55000000 end as follows
    from kinds k join workers w on w.started_at > k.at and (w.queues is null or k.queue is null or k.queue = any (w.queues))),
followed as materialized (
    select s.id, count(*) as workers, count(distinct s.instance) as instances, min(s.started_at) as since, max(s.seen_at) as until, bool_or(s.alive) as alive, max(s.started_at) as latest
    from served s where s.follows group by s.id order by max(s.started_at) desc, s.id desc limit 1)
select k.id, to_char(k.at, 'YYYY-MM-DD HH24:MI TZ'), k.who, k.queue, k.share, k.within_us, k.headroom, array_to_json(k.lines)::text, k.p50_us, k.p95_us, k.predicted_us, k.bound_us,
       k.arrive_hour, k.instances, f.workers, f.instances, f.since, case when a.work then clock_timestamp() else f.until end, to_char(f.since, 'YYYY-MM-DD HH24:MI TZ'), to_char(f.until, 'YYYY-MM-DD HH24:MI TZ'),
       a.work,
       (select count(*) from served s where s.id = f.id and s.follows is not true and s.started_at >= f.since),
       l.n, to_char(l.at, 'YYYY-MM-DD HH24:MI TZ')
from (select count(*) as n, max(g.at) as at from given g) l
left join followed f on true
left join kinds k on k.id = f.id
cross join lateral (select f.alive or f.until > clock_timestamp() - greatest(interval '1 hour', 3 * k.interval_us * interval '1 microsecond') as work) a
