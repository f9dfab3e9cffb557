-- schedule_next: coming ticks of a schedule, or of a rule.
-- params: rule text, ticks_max int4, zone text
-- returns: local text, utc text, json json
-- $1 name or rule; $2 how many; $3 time zone; NULL: that of the schedule, of a rule UTC.
-- rows: each tick as clocks there show it, in UTC, and both as JSON.
-- locks: none
select n.local, n.utc, json_build_object('local', n.local, 'utc', n.utc) as json
from deferred.schedule_next($1, $2, $3) n
