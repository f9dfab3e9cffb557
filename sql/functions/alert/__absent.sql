-- Finds lines of a crontab, and services, that no longer start while others that serve the same
-- queues do. It reads the newest 5,000 registrations of the last day. Older registrations are
-- ignored, because the host has been retired by then. When no worker starts at all, alerts about
-- late jobs report that.
--
-- A run registers only where there is work. So a line is compared with the starts of others, and
-- reported if all of this holds. By its share of all starts, the chance that it had none since is
-- below one in a thousand. It had at least ten starts in at least one hour, which nobody makes by
-- hand. It is late by five of its gaps and by 10 minutes. A service reports each 30 s that it is
-- alive. It is reported if it was alive for an hour, and if another service was seen 10 minutes
-- after it or ten starts followed. At most the 20 that were seen last are returned.
create or replace function deferred.__absent() returns table (instance text, host text,
    pidfile text, service boolean, starts bigint, every_s bigint, seen_s bigint)
language sql stable
as $$
with recent as materialized (
    select x.*, split_part(x.instance, '#', 1) as name,
           greatest(x.started_at, x.seen_at, x.ended_at) as last_at
    from (select w.* from deferred.__deferred_worker w order by w.id desc limit 5000) x
    where greatest(x.started_at, x.seen_at, x.ended_at) > clock_timestamp() - interval '1 day'
      and x.mode is distinct from 'sql'),
-- Names first, by what costs little: hardly ever one is left.
names as materialized (
    select r.name, count(*) as starts, min(r.started_at) as first, max(r.started_at) as last,
           max(r.last_at) as seen_at, max(r.seen_at - r.started_at) as lived, max(r.id) as id
    from recent r group by r.name),
silent as materialized (
    select n.*, w.host, coalesce(w.queues::text, '') as served,
           coalesce(w.mode in ('loop', 'listen'), false) as service
    from (select * from names n
          where n.seen_at < clock_timestamp() - interval '10 minutes'
            and (n.starts >= 10 and n.last - n.first >= interval '1 hour'
                 or n.lived >= interval '1 hour')
            -- A run is at work while it has a lease; one whose host went down has none soon.
            and not exists (select from recent r
                            join deferred.__deferred_lease l on l.worker = r.id
                                and l.expires_at > clock_timestamp()
                            where r.ended_at is null and r.name = n.name)
          order by n.seen_at desc limit 20) n
    join deferred.__deferred_worker w on w.id = n.id),
others as materialized (
    select r.name, coalesce(r.queues::text, '') as served, r.started_at,
           coalesce(r.mode <> 'run', false) as service, r.last_at
    from recent r where exists (select from silent))
select s.name, s.host, substring(s.name from '^[^:]*:(.*)$'), s.service, s.starts, g.every_s::int8,
       deferred.__age_s(s.seen_at)
from silent s
cross join lateral (
    select percentile_disc(0.25) within group (order by x.gap_s) as every_s,
           coalesce(percentile_disc(0.9) within group (order by x.gap_s), 0) as long_s
    from (select extract(epoch from o.started_at - lag(o.started_at)
                                    over (order by o.started_at)) as gap_s
          from others o where o.name = s.name) x) g
cross join lateral (
    select count(*) filter (where o.started_at between s.first and s.last) as beside,
           count(*) filter (where o.started_at > s.seen_at) as since,
           max(o.last_at) filter (where o.service) as service_at
    from others o where o.name <> s.name and o.served = s.served) o
where case when s.service then s.lived >= interval '1 hour'
               and (o.since >= 10 or o.service_at > s.seen_at + interval '10 minutes')
           else s.starts >= 10 and s.last - s.first >= interval '1 hour'
                and s.seen_at < clock_timestamp() - 5 * g.long_s * interval '1 second'
                and o.since * -ln(1 - least(0.9, s.starts::float8 / (s.starts + o.beside))) > 6.9
           end
order by s.seen_at desc, s.name
$$;
grant execute on function deferred.__absent to deferred_worker, deferred_viewer;
