-- Microseconds from one time to a later one.
create or replace function deferred.__us(since timestamptz, until timestamptz) returns bigint
language sql immutable
as $$
    select greatest(0, extract(epoch from $2 - $1) * 1000000)::bigint
$$;
