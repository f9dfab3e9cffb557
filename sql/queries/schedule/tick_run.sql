-- tick_run: have ticks of schedules that are due become jobs.
-- $1 at most so many, int4
-- returns one row: ticks dealt with (int4), milliseconds until the next one, rounded up, 0: it is due (int8; NULL: there is none)
-- locks: the rows of those schedules, and one row of __deferred_state; waits for none of them. Index: __deferred_schedule_next
select t.dealt, t.wait_ms from deferred.__tick($1) t
