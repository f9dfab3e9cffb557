-- schedule_next: coming ticks of a schedule, or of a rule.
-- $1 name or rule, text   $2 how many, int4   $3 time zone, text; NULL: that of the schedule, of a rule UTC
-- returns each tick as clocks there show it, in UTC (text), and both as JSON
-- locks: none
select n.local, n.utc, json_build_object('local', n.local, 'utc', n.utc) from deferred.schedule_next($1, $2, $3) n
