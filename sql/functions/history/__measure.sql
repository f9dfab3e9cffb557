-- Microseconds or KiB of the log as a whole number that no sum or cast fails of. Everything that
-- reads the log uses it. A role that records attempts writes what it likes, and to check it would
-- cost each job. So a value that cannot be, less than 0, above three years in microseconds, or NaN,
-- becomes the nearest that can. NaN is larger than any number. Written so that the planner inlines
-- it.
create or replace function deferred.__measure(measured real) returns bigint
language sql immutable
as $$
    select case when measured > 1e14 then 100000000000000 when measured < 0 then 0
                else measured::bigint end
$$;
grant execute on function deferred.__measure to deferred_worker, deferred_viewer, deferred_purger;
