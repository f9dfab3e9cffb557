-- admin_function_set: change the limits of a function; without any left it has no row.
-- $1 function (text), $2 names (text[]) and $3 values (text[]) of limits; NULL: none
-- returns one row, ignored
-- locks: the row of the function
select deferred.__function_set($1::text, json_object($2::text[], $3::text[]))
