-- Who used to come and comes no more, while others do: lines of a crontab, and services, that
-- served the same queues as others that were seen since; by the newest 5,000 registrations of the
-- last day. What is older is forgotten: by then a host was retired. Where nobody comes jobs say so,
-- when there are any.
--
-- A run registers only where there is work. So a line is missed by what others did: it had so many
-- of all starts that it would have had one of those since, but for one chance in a thousand; it had
-- ten of them or more in an hour or more, which nobody starts by hand, and is late by five of its
-- gaps, and 10 minutes. A service says each 30 s that it lives: it is missed where it lived for an
-- hour, and another service was seen 10 minutes after it, or ten starts were. The 20 that went last
-- are told.
create or replace function deferred.__absent() returns table (instance text, host text,
    pidfile text, service boolean, starts bigint, every_s bigint, seen_s bigint)
language sql stable
as $$
with recent as materialized (
    select x.*, split_part(x.instance, '#', 1) as name,
           greatest(x.started_at, x.seen_at, x.ended_at) as last_at
    from (select w.* from deferred.__deferred_worker w order by w.id desc limit 5000) x
    where greatest(x.started_at, x.seen_at, x.ended_at) > clock_timestamp() - interval '1 day'),
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
