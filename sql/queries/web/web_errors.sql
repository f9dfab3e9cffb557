-- web_errors: what jobs said that ended without success, in groups by function and first line.
-- Numbers in that line count as one. Looks at the newest $2 such ends.
-- params: fn text, ends_max int4, hidden_fns text[]
-- returns: fn text, outcome text, said text, jobs int8, first_s int8, last_s int8, job_id int8
-- $1 NULL: any. $3: left out, and with them jobs that the system deferred.
-- Rows: at most 100, with the newest job of each.
-- Locks: none. Index: __deferred_log_ended, then primary keys of the partitions of __deferred.
with newest as materialized (
    select l.job_id, l.finished_at, l.outcome, deferred.__error_kind(l.error) as said
    from deferred.__deferred_log l
    where l.final and l.outcome <> 'ok' order by l.finished_at desc limit $2::int4)
select d.fn, n.outcome, n.said, count(*) as jobs, deferred.__age_s(min(n.finished_at)) as first_s,
       deferred.__age_s(max(n.finished_at)) as last_s,
       (array_agg(n.job_id order by n.finished_at desc))[1] as job_id
from newest n
cross join lateral (select x.fn, x.created_by from deferred.__deferred x
                    where x.id = n.job_id and x.fn is not null offset 0) d
where n.said is not null and ($1::text is null or d.fn = $1) and d.fn <> all ($3::text[])
  and (cardinality($3) = 0 or d.created_by <> 'deferred_owner')
group by d.fn, n.outcome, n.said
order by count(*) desc, d.fn, n.said limit 100
