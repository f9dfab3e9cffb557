create or replace function deferred.__rule_add(
    name text, query text, fn text, params json, key_column text, queue text, priority integer,
    opts json,
    statement_timeout_ms bigint, search_path text)
returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    -- Queue and priority are arguments; a key is a column of each row, and its queue limits how
    -- many run; it waits for no other job.
    options constant text[] :=
        deferred.__job_options('{queue,priority,run_at,expires_at,key,on_duplicate,concurrency_key,concurrency,traceparent,after,flow}');
    v_queue text collate "C" := coalesce($6, 'default');
    v_opts  json := coalesce($8, '{}');
    v_owner oid := (select r.oid from pg_roles r where r.rolname = deferred.__actor());
    k text;
    v text;
    v_id bigint;
begin
    if $1 is null or $1 !~ '^[A-Za-z0-9_][A-Za-z0-9_.-]{0,87}$' then
        raise exception using errcode = '22023',
            message = format('rule name ''%s'' is invalid', left($1, 200)),
            hint = 'a name has 1 to 88 letters, digits, ''_'', ''.'' and ''-''';
    end if;
    if $3 is null or length($3) > 127 or $3 !~ '^[A-Za-z_][A-Za-z0-9_.]*$' then
        raise exception using errcode = '22023',
            message = format('function name ''%s'' is invalid', left($3, 200)),
            hint =
                'a name has 1 to 127 letters, digits, ''_'' and ''.'', and begins with a letter or ''_''';
    end if;
    if v_queue !~ '^[A-Za-z0-9_][A-Za-z0-9_.-]{0,87}$' then
        raise exception using errcode = '22023',
            message = format('queue name ''%s'' is invalid', left(v_queue, 200)),
            hint = 'a name has 1 to 88 letters, digits, ''_'', ''.'' and ''-''';
    end if;
    if coalesce(btrim($2, E' \t\r\n;'), '') = '' then
        raise exception using errcode = '22023',
            message = format('rule ''%s'': the query is empty', $1),
            hint = 'write one SELECT; each row becomes a job';
    end if;
    if coalesce($5, '') = '' then
        raise exception using errcode = '22023',
            message = format('rule ''%s'': the key column is missing', $1),
            hint = 'name a column of the query that identifies its rows; a queue has at most one '
                   'open job per key';
    end if;
    if json_typeof($4) <> 'object' or json_typeof(v_opts) <> 'object' then
        raise exception using errcode = '22023', 
            message = format('rule ''%s'': params must be a JSON object, but a JSON %s was given',
                             $1, json_typeof($4)),
            hint = 'for example {"archive": "2026"}';
    end if;
    select o.key into k from json_object_keys($4) as o(key)
    where octet_length(o.key) not between 1 and 63 limit 1;
    if found then
        raise exception using errcode = '22023',
            message = format('rule ''%s'': params have the invalid member ''%s''',
                             $1, left(k, 200)),
            hint = 'a member becomes a column of the query, so its name has 1 to 63 bytes';
    end if;
    if $7 not between -32768 and 32767 then
        raise exception using errcode = '22003',
            message = format('rule ''%s'': priority %s is out of range', $1, $7),
            hint = 'use -32768 to 32767; jobs with a larger priority run earlier';
    end if;
    if $9 not between 1 and 2147483647 then
        raise exception using errcode = '22003',
            message = format('rule ''%s'': statement timeout %s ms is out of range', $1, $9),
            hint = 'use 1 ms to 24 days';
    end if;
    for k, v in select * from json_each_text(v_opts) loop
        if k <> all (options) then
            raise exception using errcode = '22023',
                message = format('option ''%s'' is unknown', left(k, 200)),
                hint = 'known options: ' || array_to_string(options, ', ');
        end if;
        if k in ('max_attempts', 'backoff_exponent') then
            perform deferred.__number(k, v);
        end if;
    end loop;
    perform deferred.__tags(v_opts->'tags');
    if deferred.__ms('delay', v_opts->>'delay') < 0
        or deferred.__ms('expires', v_opts->>'expires') < 0
       or not deferred.__opts_ok(v_opts->>'label', null, (v_opts->>'max_attempts')::integer,
                                 deferred.__ms('timeout', v_opts->>'timeout'),
              deferred.__ms('backoff_floor', v_opts->>'backoff_floor'),
              deferred.__ms('backoff_ceiling', v_opts->>'backoff_ceiling'),
              (v_opts->>'backoff_exponent')::double precision) then
        perform deferred.__opts_refuse(v_opts->>'label', null, null, null,
            deferred.__ms('delay', v_opts->>'delay'), deferred.__ms('expires', v_opts->>'expires'),
            (v_opts->>'max_attempts')::integer, deferred.__ms('timeout', v_opts->>'timeout'),
            deferred.__ms('backoff_floor', v_opts->>'backoff_floor'),
            deferred.__ms('backoff_ceiling', v_opts->>'backoff_ceiling'),
            (v_opts->>'backoff_exponent')::double precision);
    end if;
    perform deferred.__defer_check(deferred.__actor(), v_queue, $3);
    insert into deferred.__deferred_rule (name, query, fn, params, key_column, queue, priority,
                                          opts, owner, search_path, statement_timeout_ms)
    values ($1, btrim($2, E' \t\r\n;'), $3, $4, $5, v_queue, coalesce($7, 0), v_opts, v_owner, $10,
            $9)
    on conflict (name) do nothing returning id into v_id;
    if v_id is null then
        raise exception using errcode = '23505', message = format('rule ''%s'' exists already', $1),
            hint = format('remove the rule first: deferred rule rm %s', $1);
    end if;
    return v_id;
end
$$;
comment on function deferred.__rule_add is
    'stores a rule, which then belongs to the role that acts; part of "deferred rule add"';
grant execute on function deferred.__rule_add to deferred_producer;
