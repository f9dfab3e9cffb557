-- The row of a schedule to be stored, checked.
create or replace function deferred.__schedule_read(name text, rule text, fn text, params json,
                                                    opts json)
returns deferred.__deferred_schedule
language plpgsql set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
declare
    n deferred.__deferred_schedule;
begin
    perform deferred.__name_check('schedule', name);
    perform deferred.__name_check('function', fn);
    if json_typeof(params) is distinct from 'object' or json_typeof(opts) <> 'object' then
        raise exception using errcode = '22023',
            message = format('schedule ''%s'': %s must be a JSON object', name,
                             case when json_typeof(params) = 'object' then 'the options'
                                  else 'params' end),
            hint = 'for example {"archive": "2026"}';
    end if;
    if octet_length(params::text) > 1048576 or not deferred.__depth_ok(params) then
        raise exception using errcode = '54000',
            message = format('schedule ''%s'': params %s', name,
                             case when octet_length(params::text) > 1048576
                                  then 'have more than 1 MiB'
                                  else 'nest deeper than 512 levels' end),
            hint = 'store the data elsewhere and pass a reference';
    end if;
    perform deferred.__json_check(format('schedule ''%s'': options', name), opts);
    n.name := name;
    n.rule := btrim(rule, E' \t');
    n.cron := deferred.__cron_parse(rule);
    n.zone := coalesce(opts->>'timezone', 'UTC');
    perform deferred.__zone_check(n.zone);
    n.fn := fn;
    n.params := params;
    n.queue := coalesce(opts->>'queue', 'default');
    n.missed := coalesce(opts->>'missed', 'one');
    n.overlap := coalesce(opts->>'overlap', case n.missed when 'all' then 'queue' else 'skip' end);
    n.late_ms := coalesce(deferred.__ms('late', opts->>'late'), 300000);
    n.jitter_ms := coalesce(deferred.__ms('jitter', opts->>'jitter'), 0);
    perform deferred.__name_check('queue', n.queue);
    if n.missed not in ('one', 'all', 'skip') then
        raise exception using errcode = '22023',
            message = format('option ''missed'' has the invalid value ''%s''', left(n.missed, 200)),
            hint = 'use one, all or skip';
    elsif n.overlap not in ('skip', 'queue', 'allow', 'replace') then
        raise exception using errcode = '22023',
            message = format('option ''overlap'' has the invalid value ''%s''',
                             left(n.overlap, 200)),
            hint = 'use skip, queue, allow or replace';
    elsif n.missed = 'all' and n.overlap in ('skip', 'replace') then
        raise exception using errcode = '22023',
            message = format('schedule ''%s'': missed ''all'' contradicts overlap ''%s'', which '
                             'drops ticks', name, n.overlap),
            hint = 'use overlap queue (one job after the other) or allow';
    elsif n.late_ms not between 1 and 31622400000 then
        raise exception using errcode = '22003',
            message = format('option ''late'' is out of range: %s', opts->>'late'),
            hint = 'use 1ms to 366d';
    elsif n.jitter_ms not between 0 and 86400000 then
        raise exception using errcode = '22003',
            message = format('option ''jitter'' is out of range: %s', opts->>'jitter'),
            hint = 'use 0s to 1d';
    end if;
    n.opts := deferred.__schedule_opts(name, opts, n.overlap);
    perform deferred.__defer_check(deferred.__actor(), n.queue, fn);
    n.next_at := deferred.__cron_next(n.cron, n.zone, clock_timestamp());
    if n.next_at is null then
        raise exception using errcode = '22023',
            message = format('schedule rule ''%s'' never comes due', left(n.rule, 100)),
            hint = 'no month has this day; correct day or month';
    end if;
    return n;
end
$$;
comment on function deferred.__schedule_read is
    'part of deferred.__schedule_set(): the row of a schedule; refuses what it cannot be';
