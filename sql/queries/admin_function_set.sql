-- admin_function_set: change the limits of a function, and wake idle workers; without any left it has no row.
-- $1 function (text), $2 names (text[]) and $3 values (text[]) of limits; NULL: none
-- returns a row a queue, ignored; there is always one, 'default'
-- locks: the row of the function
select deferred.__wake(q.name)
from deferred.__function_set($1::text, json_object($2::text[], $3::text[])), deferred.__deferred_queue q
