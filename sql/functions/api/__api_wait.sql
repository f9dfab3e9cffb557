-- How long a request waits for the end of its job, in milliseconds.
create or replace function deferred.__api_wait(span text) returns bigint
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    v_ms bigint := deferred.__ms('wait', $1);
begin
    if v_ms > 60000 then
        raise exception using errcode = '22003',
            message = format('option ''wait'': time span ''%s'' is too long', left($1, 200)),
            hint = 'wait at most 60s, and ask again';
    end if;
    return v_ms;
end
$$;
