-- Converts a time span to milliseconds: '5s', '1.5h', '200ms', '2d', or a bare number of seconds.
-- An interval as PostgreSQL writes it is a time span too: '5 minutes', '1 day 02:30:00'. The parser
-- in lib/base/span.c accepts the same.
create or replace function deferred.__ms(name text, span text) returns bigint
language plpgsql immutable strict
as $$
declare
    m text[] := regexp_match(span, '^([0-9]{1,12}(?:[.][0-9]{1,9})?)(ms|s|min|m|h|d)?$');
    d constant text := '([0-9]{1,12}(?:[.][0-9]{1,9})?) ?';
    v numeric;
begin
    if m is not null then
        v := m[1]::numeric * case m[2] when 'ms' then 1 when 'm' then 60000 when 'min' then 60000
                                       when 'h' then 3600000 when 'd' then 86400000 else 1000 end;
    elsif right(span, 1) ~ '[a-z0-9]' then
        m := regexp_match(span || ' ',
            '^(?:' || d || '(?:weeks?|w) ?)?(?:' || d || '(?:days?|d) ?)?(?:'
            || '([0-9]{1,12}):([0-5][0-9])(?::([0-5][0-9](?:[.][0-9]{1,9})?))? |'
            || '(?:' || d || '(?:hours?|hrs?|h) ?)?(?:' || d || '(?:minutes?|mins?|m) ?)?'
            || '(?:' || d || '(?:seconds?|secs?|s) ?)?'
            || '(?:' || d || '(?:milliseconds?|msecs?|ms) ?)?)$');
        v := case when m is not null then 0 end
            + coalesce(m[1], '0')::numeric * 604800000 + coalesce(m[2], '0')::numeric * 86400000
            + coalesce(m[3], m[6], '0')::numeric * 3600000
            + coalesce(m[4], m[7], '0')::numeric * 60000
            + coalesce(m[5], m[8], '0')::numeric * 1000 + coalesce(m[9], '0')::numeric;
    end if;
    if v > 3155760000000 then
        raise exception using errcode = '22023',
            message = format('option ''%s'': time span ''%s'' is too long', name, left(span, 200)),
            hint = 'use at most 36525d, a hundred years';
    end if;
    if v is null then
        raise exception using errcode = '22023',
            message = format('option ''%s'': ''%s'' is not a time span', name, left(span, 200)),
            hint =
                'write a number and a unit: 200ms, 5s, 10min, 2h, 30d; or an interval: 5 minutes, '
                '01:30:00, 1 day 02:00:00';
    end if;
    return round(v);
end
$$;
grant execute on function deferred.__ms to deferred_producer;
