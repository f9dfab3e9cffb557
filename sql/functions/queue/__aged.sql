-- The planner inlines this.
create or replace function deferred.__aged(priority smallint, since timestamptz, age_ms bigint,
                                           high integer) returns integer
language sql stable
as $$
    select least($4, $1 + floor(extract(epoch from clock_timestamp() - $2) * 1000 / $3))::integer
$$;
comment on function deferred.__aged is
    'priority of a job that waits since then, deferred with that priority; never above high';
