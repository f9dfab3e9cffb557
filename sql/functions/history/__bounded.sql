-- A sum of times goes up to this, so that the sum of two is still a bigint. Only times that were
-- recorded wrongly come so far.
create or replace function deferred.__bounded(us numeric) returns bigint
language sql immutable
as $$
    select greatest(-1000000000000000000, least(us, 1000000000000000000))::bigint
$$;
