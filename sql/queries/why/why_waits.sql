-- why_waits: what a waiting job waits for.
-- params: job int8
-- returns: flow int8, flow_waits_for int8, parents text?
-- Rows: one row. The job is a callback of the open flow. Column flow_waits_for is the first job of
--   that flow whose end is awaited. Column parents names the first five that have not ended.
-- Locks: none. Index: primary keys of __deferred_edge, __deferred_awaited, __deferred_flow_open and
--   __deferred; __deferred_member_job, __deferred_log_job
select f.flow, f.waits_for as flow_waits_for,
       (select string_agg(case when e.i > 5 then '...'
                               when a.child is not null then concat(
                                   format('event ''%s''', a.name),
                                   case when a.until is not null
                                        then format(' (until %s, then %s)',
                                                    date_trunc('second', a.until),
                                                    deferred.__on_timeout(a.on_timeout)) end)
                               else format('job %s (%s)', e.parent, coalesce(
                                   coalesce(p.fn, 'message') || ', ' || p.state, 'purged')) end,
                          ', ' order by e.parent)
        from (select y.parent, row_number() over (order by y.parent) as i
              from deferred.__deferred_edge y where y.child = $1::int8 and y.what is null
              order by y.parent limit 6) e
        left join deferred.__deferred_awaited a on a.child = $1::int8 and a.parent = e.parent
        left join lateral (select x.fn, x.state from deferred.job x
                           where x.id = e.parent offset 0) p on true) as parents
from (select) one
left join (select o.flow, o.waits_for from deferred.__deferred_member m
           join deferred.__deferred_flow_open o on o.flow = m.flow
           where m.job = $1 and m.part = 't') f on true
