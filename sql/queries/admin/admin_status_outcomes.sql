-- admin_status_outcomes: how the attempts of the last hour ended; looks at $1 of them at most.
-- params: attempts_max int8
-- returns: outcome text, attempts int8, dead int8, more bool, json text
-- Rows: one for each outcome. more: there may be more than were looked at
-- Locks: none. Index: __deferred_log_finished, for pages that vacuum knows, and those that it does
--   not: deferred.__recent_outcomes()
select f.outcome, f.attempts, f.dead, f.more, row_to_json(f)::text as json
from deferred.__recent_outcomes($1::int8) f
order by f.outcome
