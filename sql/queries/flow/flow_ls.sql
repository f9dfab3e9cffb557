-- flow_ls: flows, newest first.
-- params: flows_max int4, before int8?
-- returns: id int8, jobs int8, states text, on_failure text, created text, created_by text,
--   label text, failed int8?, json text
-- $2 NULL: from the newest
-- Rows: states are those of at most 200 jobs each, and of some 20,000 in all
-- Locks: none. Index: primary keys of __deferred_flow, __deferred_member, __deferred and
--   __deferred_hot, __deferred_log_job, primary key of __deferred_flow_open
select f.id, s.jobs, s.says as states, f.on_failure,
       to_char(f.created_at, 'YYYY-MM-DD HH24:MI:SS TZH:TZM') as created, f.created_by::text,
       coalesce(f.label, '') as label, f.failed,
       json_build_object('id', f.id, 'label', f.label, 'jobs', s.jobs, 'open', s.open, 'created_at',
                         f.created_at, 'created_by', f.created_by, 'on_failure', f.on_failure,
                         'failed', f.failed, 'retried_at', f.retried_at, 'looked',
                         least(s.jobs, n.looked), 'states', s.counts)::text as json
from (select least(200, greatest(1, 20000 / $1::int4)) as looked) n
cross join lateral (select x.* from deferred.__deferred_flow x
                    where x.id < coalesce($2::int8, 9223372036854775807) order by x.id desc
                    limit $1::int4) f
cross join lateral deferred.__flow_states(f.id, n.looked) s
order by f.id desc
