-- Microseconds or KiB of the log as a whole number that no sum or cast fails of. What an attempt
-- was recorded to have taken, as a whole number: all who read the log read it by this. A role that
-- records attempts writes what it likes, and what is recorded is not checked, which each job would
-- pay for; so what cannot be, less than nothing, three years in microseconds, or no number at all,
-- is made the nearest that can. NaN is larger than any number. Written so that it becomes part of
-- the statement that calls it.
create or replace function deferred.__measure(measured real) returns bigint
language sql immutable
as $$
    select case when measured > 1e14 then 100000000000000 when measured < 0 then 0
                else measured::bigint end
$$;
grant execute on function deferred.__measure to deferred_worker, deferred_viewer, deferred_purger;
