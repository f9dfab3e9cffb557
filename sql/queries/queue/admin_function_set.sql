-- admin_function_set: change the limits of a function, and wake idle workers; without any left it
-- has no row.
-- params: fn text, names text[], values text[], user text
-- returns: ignored
-- $3 NULL: no limit
-- Rows: one for each queue, ignored
-- Locks: the row of the function
with done as materialized (
    select deferred.__function_set($1::text, s.settings),
           deferred.__act_note($4::text || ': deferred function set', 'set', fn => $1,
                               settings => s.settings)
    from (select json_object($2::text[], $3::text[]) as settings offset 0) s)
select deferred.__wake(q.name) from done, deferred.__deferred_queue q
