-- flow_head: a flow, or that of a job.
-- params: flow int8, jobs_max int4
-- returns: id int8, label text, jobs int8, on_failure text, failed int8?, states text, retry text?,
--   created text, created_by text, json text
-- Rows: one row; none if it is not a flow, or not a job of one. Jobs and states of a flow that has
--   not ended are those that were counted
-- Locks: none. Index: primary keys of __deferred_flow, __deferred_member, __deferred and
--   __deferred_hot, __deferred_member_job, __deferred_log_job, __deferred_flow_retry_flow, primary
--   key of __deferred_flow_open
select f.id, coalesce(f.label, '') as label, s.jobs, f.on_failure, f.failed, s.says as states,
       r.says as retry,
       to_char(f.created_at, 'YYYY-MM-DD HH24:MI:SS TZH:TZM') as created, f.created_by::text,
       json_build_object('id', f.id, 'label', f.label, 'jobs', s.jobs, 'open', s.open, 'created_at',
                         f.created_at, 'created_by', f.created_by, 'on_failure', f.on_failure,
                         'failed', f.failed, 'retried_at', f.retried_at, 'retry', r.says, 'looked',
                         least(s.jobs, $2::int4), 'states', s.counts)::text as json
from deferred.__deferred_flow f
cross join lateral deferred.__flow_states(f.id, $2::int4) s
left join lateral (
    select case when x.ended_at is null
                    then format('being begun again since %s, by %s: up to job %s',
                                to_char(x.requested_at, 'YYYY-MM-DD HH24:MI:SS TZH:TZM'),
                                x.requested_by, x.after)
                else format('begun again at %s, by %s',
                            to_char(x.ended_at, 'YYYY-MM-DD HH24:MI:SS TZH:TZM'),
                            x.requested_by) end
           || format(': %s ready, %s waiting', x.ready, x.waiting)
           || case when x.refused > 0 then format(', %s refused, the first: %s', x.refused, x.why)
                   else '' end as says
    from deferred.__deferred_flow_retry x where x.flow = f.id order by x.n desc limit 1) r on true
where f.id = coalesce((select m.flow from deferred.__deferred_member m where m.job = $1::int8),
                      $1::int8)
