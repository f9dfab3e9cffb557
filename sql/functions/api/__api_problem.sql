-- The answer to a request that failed: problem details as of RFC 9457. The member code has the
-- SQLSTATE. The answer to a client without a valid token says no more.
create or replace function deferred.__api_problem(state text, message text,
                                                  hint text) returns text
language sql stable set search_path = pg_catalog, pg_temp
as $$
    select json_strip_nulls(json_build_object(
        'type', 'about:blank',
        'title', case s.status when 400 then 'Bad Request' when 401 then 'Unauthorized'
                     when 403 then 'Forbidden' when 404 then 'Not Found' when 409 then 'Conflict'
                     when 413 then 'Content Too Large' when 422 then 'Unprocessable Content'
                     when 429 then 'Too Many Requests' else 'Service Unavailable' end,
        'status', s.status, 'detail', case when s.status <> 401 and $1 <> '55P03' then $2
                                             when $1 = '55P03' then 'another transaction is busy '
                                                  'with the same row' end,
        'hint', nullif($3, ''), 'code', $1))::text
    from (select deferred.__api_status($1) as status) s
$$;
