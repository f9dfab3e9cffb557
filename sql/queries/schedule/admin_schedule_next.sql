-- admin_schedule_next: coming ticks of a schedule, or of a rule.
-- params: rule text, ticks_max int4, zone text
-- returns: local text, utc text, json json
-- $1 name or rule. $3 NULL: that of the schedule; UTC for a rule.
-- Rows: one for each tick, as clocks there show it and in UTC.
-- Locks: none.
select n.local, n.utc, json_build_object('local', n.local, 'utc', n.utc) as json
from deferred.schedule_next($1, $2, $3) n
