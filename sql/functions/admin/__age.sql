-- Seconds as people say them, to the nearest unit: 5s, 3min, 2h, 4d. span_age() of lib/base/span.c
-- says the same.
create or replace function deferred.__age(seconds double precision) returns text
language sql immutable
as $$
    select case when s < 120 then floor(s) || 's'
                when round(s / 60) < 120 then round(s / 60) || 'min'
                when round(s / 3600) < 48 then round(s / 3600) || 'h'
                else round(s / 86400) || 'd' end
    from (select abs(trunc(seconds)::numeric) as s) x
$$;
comment on function deferred.__age(double precision) is 'a time span as people say it';
