-- Status of the answer to a request that failed with this SQLSTATE. NULL: not the client's fault,
-- or to be tried again.
create or replace function deferred.__api_status(state text) returns integer
language sql immutable
as $$
    select case when $1 = '28000' then 401 when $1 = '42501' then 403
                when $1 in ('42704', 'P0002') then 404
                when $1 in ('23505', '55000', '55006', '42710') then 409
                when $1 in ('54000', '54001') then 413
                when $1 = '22032' then 400
                when $1 = '53400' then 429
                when $1 = '55P03' then 503
                when left($1, 2) in ('22', '0A') then 422 end
$$;
