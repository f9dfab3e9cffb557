-- The row of __deferred_limit_guard that stands for a lane. A claim that adds the first cursor of
-- the lane locks it, and so do claims that wait for the lane.
create or replace function deferred.__lane_guard(queue text, priority integer) returns integer
language sql immutable parallel safe
as $$ select (hashtextextended($1 || ' ' || $2, 0) & 1023)::integer + 1024 $$;
grant execute on function deferred.__lane_guard to deferred_worker;
