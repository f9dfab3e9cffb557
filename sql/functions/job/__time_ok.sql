-- No reader copes with every timestamp: two infinite ones have no difference, and most languages
-- read years of four digits only. One expression, so that the planner puts it in the place of the
-- call.
create or replace function deferred.__time_ok(at timestamptz) returns boolean
language sql immutable
as $$
    select at >= '0001-01-01 00:00:00+00' and at < '10000-01-01 00:00:00+00'
$$;
comment on function deferred.__time_ok is 'true if a time can be stored: the years 1 to 9999';
grant execute on function deferred.__time_ok to deferred_worker;
