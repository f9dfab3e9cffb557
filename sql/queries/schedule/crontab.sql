-- crontab: when a line of a crontab starts.
-- $1 rule, text
-- returns one row: minutes, hours, days, months, weekdays as bits (int8), a day must match both of days and weekdays (bool)
-- locks: none
select c.minutes, c.hours::int8, c.days, c.months::int8, c.weekdays::int8, c.both_days from deferred.__crontab($1::text) c
