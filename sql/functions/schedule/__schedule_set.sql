-- Stores a schedule, or changes one. source: the file it comes from; NULL: none.
create or replace function deferred.__schedule_set(name text, rule text, fn text, params json,
                                                   opts json, source text) returns text
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    v_opts  json := coalesce($5, '{}');
    v_owner oid := (select r.oid from pg_roles r where r.rolname = deferred.__actor());
    o       deferred.__deferred_schedule;  -- as it was
    n       deferred.__deferred_schedule;
    v_new   boolean;
    v_was   text;
begin
    if $1 is null or $1 !~ '^[A-Za-z0-9_][A-Za-z0-9_.-]{0,87}$' then
        raise exception using errcode = '22023',
            message = format('schedule name ''%s'' is invalid', left($1, 200)),
            hint = 'a name has 1 to 88 letters, digits, ''_'', ''.'' and ''-''';
    end if;
    if $3 is null or length($3) > 127 or $3 !~ '^[A-Za-z_][A-Za-z0-9_.]*$' then
        raise exception using errcode = '22023',
            message = format('function name ''%s'' is invalid', left($3, 200)),
            hint =
                'a name has 1 to 127 letters, digits, ''_'' and ''.'', and begins with a letter or ''_''';
    end if;
    if json_typeof($4) is distinct from 'object' or json_typeof(v_opts) <> 'object' then
        raise exception using errcode = '22023',
            message = format('schedule ''%s'': params and options must be JSON objects', $1),
            hint = 'for example {"archive": "2026"}';
    end if;
    if octet_length($4::text) > 1048576 or not deferred.__depth_ok($4) then
        raise exception using errcode = '54000',
            message = format('schedule ''%s'': params have more than 1 MiB or 512 levels', $1),
            hint = 'store the data elsewhere and pass a reference';
    end if;
    n.name := $1;
    n.rule := btrim($2, E' \t');
    n.cron := deferred.__cron_parse($2);
    n.zone := coalesce(v_opts->>'timezone', 'UTC');
    perform deferred.__zone_check(n.zone);
    n.fn := $3;
    n.params := $4;
    n.queue := coalesce(v_opts->>'queue', 'default');
    n.missed := coalesce(v_opts->>'missed', 'one');
    n.overlap := coalesce(v_opts->>'overlap', case n.missed when 'all' then 'queue'
                                                   else 'skip' end);
    n.late_ms := coalesce(deferred.__ms('late', v_opts->>'late'), 300000);
    n.jitter_ms := coalesce(deferred.__ms('jitter', v_opts->>'jitter'), 0);
    if n.queue !~ '^[A-Za-z0-9_][A-Za-z0-9_.-]{0,87}$' then
        raise exception using errcode = '22023',
            message = format('queue name ''%s'' is invalid', left(n.queue, 200)),
            hint = 'a name has 1 to 88 letters, digits, ''_'', ''.'' and ''-''';
    end if;
    if n.missed not in ('one', 'all', 'skip') then
        raise exception using errcode = '22023',
            message = format('option ''missed'' has the invalid value ''%s''', left(n.missed, 200)),
            hint = 'use one, all or skip';
    end if;
    if n.overlap not in ('skip', 'queue', 'allow', 'replace') then
        raise exception using errcode = '22023',
            message = format('option ''overlap'' has the invalid value ''%s''',
                             left(n.overlap, 200)),
            hint = 'use skip, queue, allow or replace';
    end if;
    if n.missed = 'all' and n.overlap in ('skip', 'replace') then
        raise exception using errcode = '22023',
            message = format('schedule ''%s'': missed ''all'' contradicts overlap ''%s'', which '
                             'drops '
                             'ticks',
                             $1, n.overlap),
            hint = 'use overlap queue (one job after the other) or allow';
    end if;
    if n.late_ms not between 1 and 31622400000 or n.jitter_ms not between 0 and 86400000 then
        raise exception using errcode = '22003',
            message = format('schedule ''%s'': late or jitter is out of range', $1),
            hint = 'late is at most 366d, jitter at most 1d';
    end if;
    n.opts := deferred.__schedule_opts($1, v_opts, n.overlap);
    perform deferred.__defer_check(deferred.__actor(), n.queue, $3);
    n.next_at := deferred.__cron_next(n.cron, n.zone, clock_timestamp());
    if n.next_at is null then
        raise exception using errcode = '22023',
            message = format('schedule rule ''%s'' never comes due', left(n.rule, 100)),
            hint = 'no month has this day; correct day or month';
    end if;

    begin
        v_was := deferred.__patience('5 seconds');
        insert into deferred.__deferred_schedule as s (name, rule, cron, zone, fn, params, queue,
                                                       opts,
            missed, late_ms, overlap, jitter_ms, next_at, owner, source)
        values (n.name, n.rule, n.cron, n.zone, n.fn, n.params, n.queue, n.opts, n.missed,
                n.late_ms,
            n.overlap, n.jitter_ms, n.next_at, v_owner, $6)
        on conflict (name) do nothing;
        v_new := found;
        if v_new then
            perform deferred.__schedule_quota(n.name, v_owner);
        end if;
        perform set_config('lock_timeout', v_was, true);
    exception when lock_not_available then
        perform deferred.__locked('schedule', n.name);
    end;
    if v_new then
        perform deferred.__schedule_moved(n.queue, n.next_at);
        return 'added';
    end if;
    o := deferred.__schedule_get($1, true);
    if o.source is distinct from $6 then
        raise exception using errcode = '23505',
            message = format('schedule ''%s'' %s',
                             o.name,
                             coalesce('comes from ''' || o.source || '''', 'was set by hand')),
            hint = case when $6 is null then 'change that file and run deferred schedule sync, '
                                             'or remove the schedule first: deferred schedule rm '
                                                 || o.name
                        else 'use another name, or remove the schedule first: deferred schedule '
                             'rm ' || o.name end;
    end if;
    if (o.rule, o.zone, o.fn, o.params::text, o.queue, o.opts::jsonb, o.missed, o.late_ms,
        o.overlap, o.jitter_ms)
       = (n.rule, n.zone, n.fn, n.params::text, n.queue, n.opts::jsonb, n.missed, n.late_ms,
          n.overlap, n.jitter_ms) then
        return 'unchanged';
    end if;
    if o.paused then
        n.next_at := null;
    elsif (o.rule, o.zone) = (n.rule, n.zone) then
        n.next_at := o.next_at;
    end if;
    update deferred.__deferred_schedule s
    set (rule, cron, zone, fn, params, queue, opts, missed, late_ms, overlap, jitter_ms, next_at,
         changed_at)
      = (n.rule, n.cron, n.zone, n.fn, n.params, n.queue, n.opts, n.missed, n.late_ms, n.overlap,
         n.jitter_ms, n.next_at, clock_timestamp())
    where s.id = o.id;
    perform deferred.__schedule_moved(n.queue, n.next_at) where n.next_at is not null;
    return 'changed';
end
$$;
comment on function deferred.__schedule_set is
    'stores or changes a schedule, which belongs to the role that set it first; part of '
    'deferred.schedule() and "deferred schedule"';
