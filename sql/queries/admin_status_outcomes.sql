-- admin_status_outcomes: how the attempts of the last hour ended; reads the newest $1 pages of the log at most.
-- $1 pages of the log to look at (int8)
-- returns outcome (text), attempts (int8), those of them with which a job died (int8), there may be more than were looked at (bool),
--   the same as a JSON object (text)
-- locks: none. Index: none. Rows are only ever added, so the newest lie at the end of the week's partition
with tail as materialized (
    select greatest(coalesce(pg_relation_size(to_regclass('deferred.__deferred_log_'
               || to_char(date_trunc('week', now() at time zone 'UTC'), 'YYYYMMDD'))), 0)
             / current_setting('block_size')::int8 - $1::int8, 0) as page),
recent as (
    select l.outcome, count(*) as attempts, count(*) filter (where l.final and deferred.state(l.outcome) = 'dead') as dead,
           min(l.finished_at) as oldest
    from deferred.__deferred_log l
    where l.finished_at > now() - interval '1 hour' and l.ctid >= (select format('(%s,0)', t.page)::tid from tail t)
    group by l.outcome),
figures as (
    select r.outcome, r.attempts, r.dead,
           (select t.page > 0 from tail t) and min(r.oldest) over () > now() - interval '59 minutes' as more
    from recent r)
select f.outcome, f.attempts, f.dead, f.more, row_to_json(f)::text
from figures f
order by f.outcome
