-- tick_run: have ticks of schedules that are due become jobs.
-- params: ticks_max int4
-- returns: dealt int4, wait_ms int8?
-- Rows: one row. Time until the next tick, rounded up; 0: it is due; NULL: there is none.
-- Locks: the rows of those schedules, and one row of __deferred_state; waits for none of them.
--   Index: __deferred_schedule_next.
select t.dealt, t.wait_ms from deferred.__tick($1) t
