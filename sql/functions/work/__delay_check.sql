-- A delay that a program names for a job.
create or replace function deferred.__delay_check(id bigint, delay_ms bigint) returns void
language plpgsql immutable set search_path = pg_catalog, pg_temp
as $$
begin
    if $2 not between 0 and 31536000000 then
        raise exception using errcode = '22003',
            message = format('job %s: a delay of %s ms is out of range', $1, $2),
            hint = 'use 0 to 31536000000 (365 days)';
    end if;
end
$$;
