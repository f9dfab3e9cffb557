-- function_resume: end the pause that the breaker made of a function.
-- $1 function (text)
-- returns one row: it was paused (bool)
-- locks: the row of the function. Index: primary key of __deferred_function
select deferred.__function_resume($1::text)
