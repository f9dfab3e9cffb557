-- Stores a rule, which then belongs to the role that acts; part of `deferred rule add`.
create or replace function deferred.__rule_add(
    name text, query text, fn text, params json, key_column text, queue text, priority integer,
    opts json, statement_timeout_ms bigint, search_path text)
returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    v_query text := btrim($2, E' \t\r\n;');
    v_queue text collate "C" := coalesce($6, 'default');
    v_opts  json := coalesce($8, '{}');
    v_owner oid := (select r.oid from pg_roles r where r.rolname = deferred.__actor());
    v_key   text;
    v_job   deferred.__deferred;
    v_id    bigint;
begin
    perform deferred.__name_check('rule', $1);
    perform deferred.__name_check('function', $3);
    perform deferred.__name_check('queue', v_queue);
    if coalesce(v_query, '') = '' then
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
    perform deferred.__json_check(format('rule ''%s'': params', $1), $4);
    select o.key into v_key from json_object_keys($4) as o(key)
    where octet_length(o.key) not between 1 and 63 limit 1;
    if found then
        raise exception using errcode = '22023',
            message = format('rule ''%s'': params have the invalid member ''%s''',
                             $1, left(v_key, 200)),
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
    v_job := deferred.__opts_job(v_opts);
    if v_job.key_until_ms = 0 then
        raise exception using errcode = '22023',
            message = format('rule ''%s'': option ''key_until'' has the invalid value ''start''',
                             $1),
            hint = 'use end, or a time span after the end such as 10min; each run reads the rows '
                   'again, so no change is lost';
    end if;
    perform deferred.__defer_check(deferred.__actor(), v_queue, $3);
    insert into deferred.__deferred_rule (name, query, fn, params, key_column, queue, priority,
                                          opts, owner, search_path, statement_timeout_ms)
    values ($1, v_query, $3, $4, $5, v_queue, coalesce($7, 0), v_opts, v_owner, $10, $9)
    on conflict (name) do nothing returning id into v_id;
    if v_id is null then
        raise exception using errcode = '23505', message = format('rule ''%s'' exists already', $1),
            hint = format('remove the rule first: deferred rule rm %s', $1);
    end if;
    return v_id;
end
$$;
grant execute on function deferred.__rule_add to deferred_producer;
