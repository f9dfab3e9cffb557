-- PostgreSQL takes any misspelt name with a digit for a zone of POSIX, and abbreviations for
-- whatever timezone_abbreviations says. The view reads hundreds of files: a zone that some schedule
-- has is good.
create or replace function deferred.__zone_check(zone text) returns void
language plpgsql stable set search_path = pg_catalog, pg_temp
as $$
begin
    if zone <> 'UTC' and not exists (select from deferred.__deferred_schedule s where s.zone = $1)
       and (zone in ('localtime', 'posixrules', 'Factory')
            or not exists (select from pg_timezone_names n where n.name = $1)) then
        raise exception using errcode = '22023',
            message = format('time zone ''%s'' is unknown', left(zone, 100)),
            hint = coalesce('did you mean ' || (select string_agg(x.name, ' or ' order by x.name)
                                  from (select n.name from pg_timezone_names n
                                        where n.name <> zone and lower(zone) in (lower(n.name),
                                            lower(split_part(n.name, '/', 2))) limit 3) x),
                            'use a name from the view pg_timezone_names, such as Europe/Berlin');
    end if;
end
$$;
comment on function deferred.__zone_check(text) is 'refuses what is not the name of a time zone';
