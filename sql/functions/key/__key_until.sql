-- Reads option key_until. NULL: the key is held until the job has ended. 0: until the first attempt
-- starts. Above 0: for that many milliseconds after the end.
create or replace function deferred.__key_until(span text) returns bigint
language plpgsql immutable
as $$
begin
    if span is null or span = 'end' then return null; end if;
    if span = 'start' then return 0; end if;
    if span !~ '^[0-9]' or deferred.__ms('key_until', span) = 0 then
        raise exception using errcode = '22023',
            message = format('option ''key_until'' has the invalid value ''%s''', left(span, 200)),
            hint = 'use end, start, or a time span after the end such as 10min';
    end if;
    return deferred.__ms('key_until', span);
end
$$;
comment on function deferred.__key_until(text) is 'option key_until as it is stored';
grant execute on function deferred.__key_until(text) to deferred_producer;
