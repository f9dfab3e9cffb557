-- '5s', '1.5h', '200ms', '2d', or a bare number of seconds, to milliseconds.
create or replace function deferred.__ms(name text, span text) returns bigint
language plpgsql immutable strict
as $$
declare
    m text[] := regexp_match(span, '^([0-9]+(?:[.][0-9]+)?)(ms|s|min|m|h|d)?$');
begin
    if m is null or length(m[1]) > 12 then
        raise exception using errcode = '22023',
            message = format('invalid time span %L for option "%s"', left(span, 200), name),
            hint = 'write a number and a unit: 200ms, 5s, 10min, 2h, 30d';
    end if;
    return round(m[1]::numeric * case m[2] when 'ms' then 1 when 'm' then 60000 when 'min' then 60000
                                           when 'h' then 3600000 when 'd' then 86400000 else 1000 end);
end
$$;
comment on function deferred.__ms(text, text) is 'a time span as people write it, in milliseconds';
grant execute on function deferred.__ms(text, text) to deferred_producer;
