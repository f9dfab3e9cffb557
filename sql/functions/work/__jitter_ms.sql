-- A delay with its random part: 80 to 100 % of it. As retry_jitter_ms() in lib/base/retry.c.
create or replace function deferred.__jitter_ms(delay_ms bigint) returns bigint
language sql volatile
as $$
    select greatest(1, $1 - floor(random() * ($1 / 5 + 1))::bigint)
$$;
