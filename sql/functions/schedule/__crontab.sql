-- The rule of a crontab's line: what deferred.__cron_parse() reads, without what cron itself does
-- not know.
create or replace function deferred.__crontab(rule text) returns deferred.__cron
language plpgsql immutable security definer set search_path = pg_catalog, pg_temp
as $$
declare
    c deferred.__cron := deferred.__cron_parse($1);
begin
    if c.every_us is not null or c.nth <> 0 or (c.days >> 32) <> 0 then
        raise exception using errcode = '22023',
            message = format('crontab rule ''%s'' is not supported by cron', left($1, 100)),
            hint = '''every'', L and # are for deferred schedule; write minute hour day month '
                   'weekday, such as ''*/5 * * * *'', or @hourly';
    end if;
    return c;
end
$$;
comment on function deferred.__crontab(text) is 'the rule of a line of a crontab, read';
grant execute on function deferred.__crontab(text) to deferred_viewer;
