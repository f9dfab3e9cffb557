-- crashed: attempts of a function crashed, and are recorded.
-- params: fn text, crashes int8, crashes_max int8, retry_ms int8
-- returns: paused bool, text text?, remedy text
-- Rows: one. paused: the function is paused. The texts are those of a pause that began now.
-- Locks: the row of the function in __deferred_crash; rows that a pause changes.
-- Index: primary keys; __deferred_log_finished
select c.paused, c.text, c.remedy from deferred.__crashed($1::text, $2::int8, $3::int8, $4::int8) c
