-- function_resume: end the pause that the breaker made of a function.
-- params: fn text, user text
-- returns: resumed bool
-- Locks: the row of the function. Index: primary key of __deferred_function
select case when r.done then deferred.__act_note($2::text || ': deferred function resume', 'resume',
                                                 fn => $1) else false end as resumed
from (select deferred.__function_resume($1::text) as done offset 0) r
