-- Seconds that have passed since a time; less than 0 if the time is still to come. An infinite time
-- has no age. No producer can store one, but an old row may hold one: the nearest time that
-- __time_ok() allows stands for it. One expression, as in __time_ok().
create or replace function deferred.__age_s(at timestamptz) returns bigint
language sql volatile
as $$
    select extract(epoch from clock_timestamp()
        - case when at < '0001-01-01 00:00:00+00' then '0001-01-01 00:00:00+00'
               when at > '9999-12-31 23:59:59+00' then '9999-12-31 23:59:59+00' else at end)::bigint
$$;
grant execute on function deferred.__age_s to deferred_producer, deferred_viewer;
