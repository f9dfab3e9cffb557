-- What options say of the jobs, checked; those of the schedule itself are left out.
create or replace function deferred.__schedule_opts(name text, opts json, overlap text) returns json
language plpgsql set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    own    constant text[] := '{timezone,missed,late,overlap,jitter,queue}';
    -- A tick says when, and its schedule in which queue; it waits for no other job, is in no flow,
    -- and overlap is said in place of a key.
    jobs   constant text[] :=
        deferred.__job_options('{queue,delay,run_at,expires_at,key,on_duplicate,traceparent,after,flow}');
    v_all  jsonb := opts::jsonb - own;
    k text;
    v text;
begin
    for k, v in select * from jsonb_each_text(v_all) loop
        if k <> all (jobs) then
            raise exception using errcode = '22023',
                message = format('option ''%s'' is unknown', left(k, 200)),
                hint = 'known options: ' || array_to_string(own || jobs, ', ');
        end if;
        if k in ('priority', 'max_attempts', 'concurrency', 'backoff_exponent') then
            perform deferred.__number(k, v);
        end if;
    end loop;
    perform deferred.__tags((v_all->'tags')::json);
    if (v_all->>'priority')::integer not between -32768 and 32767 then
        raise exception using errcode = '22003',
            message = format('schedule ''%s'': priority %s is out of range',
                             $1, v_all->>'priority'),
            hint = 'use -32768 to 32767; jobs with a larger priority run earlier';
    end if;
    if deferred.__ms('expires', v_all->>'expires') < 0
       or not deferred.__opts_ok(v_all->>'label', null, (v_all->>'max_attempts')::integer,
                                 deferred.__ms('timeout', v_all->>'timeout'),
              deferred.__ms('backoff_floor', v_all->>'backoff_floor'),
              deferred.__ms('backoff_ceiling', v_all->>'backoff_ceiling'),
              (v_all->>'backoff_exponent')::double precision) then
        perform deferred.__opts_refuse(v_all->>'label', null, null, null, null,
            deferred.__ms('expires', v_all->>'expires'), (v_all->>'max_attempts')::integer,
            deferred.__ms('timeout', v_all->>'timeout'),
            deferred.__ms('backoff_floor', v_all->>'backoff_floor'),
            deferred.__ms('backoff_ceiling', v_all->>'backoff_ceiling'),
            (v_all->>'backoff_exponent')::double precision);
    end if;
    if v_all ? 'concurrency_key' and overlap = 'queue' then
        raise exception using errcode = '22023',
            message = format('schedule ''%s'': option ''concurrency_key'' contradicts overlap '
                             '''queue''',
                             $1),
            hint = 'overlap ''queue'' has a key of its own; use overlap ''allow'' with your key';
    end if;
    if (v_all ? 'concurrency_key' or v_all ? 'concurrency')
       and not deferred.__concurrency_ok(v_all->>'concurrency_key',
                                         (v_all->>'concurrency')::integer) then
        raise exception using errcode = '22003',
            message = format('schedule ''%s'': concurrency is out of range', $1),
            hint =
                'concurrency_key: 1 to 1000 characters; concurrency: 1 to 10000, together with a '
                'key';
    end if;
    return v_all::json;
end
$$;
comment on function deferred.__schedule_opts is 'options of the jobs of a schedule';
