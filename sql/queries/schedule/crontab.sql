-- crontab: when a line of a crontab starts.
-- params: rule text
-- returns: minutes int8, hours int8, days int8, months int8, weekdays int8, both_days bool
-- Rows: one row: minutes, hours, days, months, weekdays as bits, a day must match both of days and
--   weekdays.
-- Locks: none
select c.minutes, c.hours::int8, c.days, c.months::int8, c.weekdays::int8, c.both_days
from deferred.__crontab($1::text) c
