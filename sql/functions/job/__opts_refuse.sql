-- Raises what deferred.__opts_bad() says, if it says anything.
create or replace function deferred.__opts_refuse(bad text[]) returns void
language plpgsql set search_path = pg_catalog, pg_temp
as $$
begin
    if $1 is null then
        return;
    elsif $1[4] is not null then
        raise exception using errcode = '22023',
            message = format('option ''%s'' is %s, but ''%s'' is missing', $1[1], $1[2], $1[4]),
            hint = format('name the key, or leave %s out', $1[1]);
    elsif $1[1] = 'on_duplicate' then
        raise exception using errcode = '22023',
            message = format('option ''on_duplicate'' has the invalid value ''%s''', $1[2]),
            hint = 'use ' || $1[3];
    end if;
    raise exception using errcode = '22003',
        message = format('option ''%s'' is out of range: %s', $1[1], $1[2]),
        hint = 'use ' || coalesce($1[3], 'a time span of at most 36525d, and of at least 1ms '
                                         'except for a delay');
end
$$;
comment on function deferred.__opts_refuse is 'raises which option of a job is wrong, if one is';
