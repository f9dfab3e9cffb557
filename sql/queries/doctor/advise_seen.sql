-- advise_seen: by which lines of a crontab, and as which services, workers were started in the last
-- day, as `deferred simulate` takes them.
-- params: queue text, lines_max int8
-- returns: line text, service bool
-- $1 queue that they serve; NULL: any. $2 rows at most.
-- Rows: nothing where a service that sleeps is among them, which is not replayed; else line, it is
--   a service; by host and pidfile. A run registers only if there is work. The smallest of its last
--   20 gaps therefore show how often a run starts. A run that starts during the previous run is
--   assumed to do nothing.
-- Locks: none. Index: primary key of __deferred_worker, from its end: the newest 5,000.
with recent as materialized (
    select split_part(w.instance, '#', 1) as name, w.*, w.mode <> 'run' as service
    from (select x.id, x.instance, x.started_at, x.seen_at, x.ended_at, x.queues, x.cnt, x.runners,
          x.mode from deferred.__deferred_worker x order by x.id desc limit 5000) w
    where w.mode is not null and w.cnt is not null and w.runners is not null
      and case when w.mode <> 'run' then w.ended_at is null
                   and w.seen_at > clock_timestamp() - interval '150 s'
                       else w.started_at > clock_timestamp() - interval '1 day' end),
ordered as (
    select r.*, row_number() over (partition by r.name order by r.id desc) as back,
           extract(epoch from r.started_at - lag(r.started_at) over (partition by r.name
               order by r.id)) as gap_s
    from recent r),
names as (
    select o.name, max(o.id) as id, count(o.gap_s) as gaps,
           greatest(1, round(percentile_disc(0.1) within
                             group (order by o.gap_s) / 60))::integer as minutes
    from ordered o where o.back <= 20 group by o.name)
select case when r.service then '' when n.minutes < 60 then format('*/%s * * * * ', n.minutes)
            else format('0 */%s * * * ', least(23, n.minutes / 60)) end
       || format('--cnt %s --runners %s', r.cnt, r.runners) || case when r.service then ''
           else ' --if-running=skip' end
       || coalesce((select string_agg(' --queue ' || q, '' order by q) from unnest(r.queues) q),
                   '') as line, r.service
from names n join recent r on r.id = n.id
where (r.service or n.gaps >= 3) and ($1::text is null or r.queues is null or $1 = any (r.queues))
  and cardinality(coalesce(r.queues, '{}')) <= 32
  and not exists (select from recent x where x.mode = 'loop'
                  and ($1 is null or x.queues is null or $1 = any (x.queues)))
order by r.name limit $2::int8
