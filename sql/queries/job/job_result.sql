-- job_result: state of a job, and what came of it.
-- params: job int8
-- returns: state text?, ended bool, result text?, outcome text?, json text
-- Rows: one row. state NULL: there is no such job, or another role deferred it
-- Locks: none. Index: as the view deferred.job
select r.state, coalesce(r.state in ('done', 'dead', 'cancelled', 'expired'), false) as ended,
       r.result, r.outcome,
       json_build_object('id', $1::int8, 'state', r.state, 'result', r.result, 'outcome', r.outcome,
                         'finished_at', r.finished_at)::text as json
from deferred.result($1) r
