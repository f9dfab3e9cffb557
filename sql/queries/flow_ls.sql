-- flow_ls: flows, newest first.
-- $1 how many at most (int4)
-- returns of each: id (int8), label (text), jobs (int4), when it was deferred, by whom (text), the same as a JSON object (text)
-- locks: none. Index: primary key of __deferred_flow
select f.id, coalesce(f.label, ''), f.jobs, to_char(f.created_at, 'YYYY-MM-DD HH24:MI:SS TZH:TZM'), f.created_by::text,
       json_build_object('id', f.id, 'label', f.label, 'jobs', f.jobs, 'created_at', f.created_at, 'created_by', f.created_by,
           'on_failure', f.on_failure, 'failed', f.failed, 'retried_at', f.retried_at)::text
from deferred.__deferred_flow f order by f.id desc limit $1::int4
