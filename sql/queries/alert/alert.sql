-- alert: find what is wrong, and have it told; nothing where somebody did so within a minute.
-- params: settings json
-- returns: cause text, name text, text text, remedy text, note text
-- Rows: one for each problem that is reported now. note: why one of the ways was not taken.
-- Locks: the row of __deferred_upkeep, which is not waited for; rows of __deferred_function that
--   the breaker changes; up to 100 ms. Index: primary keys of __deferred_sum and __deferred_depth;
--   all of __deferred_series, __deferred_queue and __deferred_alert. Of workers the newest 2,000.
select a.cause, a.name, a.text, a.remedy, a.note from deferred.__alert($1::json) a
