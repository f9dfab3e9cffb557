-- crashed: attempts of a function crashed, and are recorded.
-- $1 function (text), $2 how many (int8), $3 breaker.crashes (int8), $4 breaker.retry in ms (int8)
--
-- returns one row: the function is paused (bool); of a pause that began now: the alert (text),
--   what to do (text)
--
-- locks: the row of the function in __deferred_crash; rows that a pause changes. Index: primary
--   keys; __deferred_log_finished
select c.paused, c.text, c.mend from deferred.__crashed($1::text, $2::int8, $3::int8, $4::int8) c
