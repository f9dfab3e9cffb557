-- Makes the schedules of a file equal to those given, each with name, rule, fn, params and opts, in
-- one transaction. If `prune` is true, it removes schedules that came from the file and are no
-- longer in it, except those of other roles. If `dry` is true, it only returns what it would do,
-- and the caller rolls back.
create or replace function deferred.__schedule_sync(source text, schedules json,
                                                    prune boolean) returns table (name text,
                                                        what text)
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    e json;
    v_names text[] := '{}';
    v_hint text;
begin
    if coalesce($1, '') = '' or length($1) > 1000 or json_typeof($2) <> 'array' then
        raise exception using errcode = '22023',
            message = case when coalesce($1, '') = '' then 'the source is missing'
                           when length($1) > 1000 then 'the source is longer than 1000 characters'
                           else 'the schedules must be a JSON array' end,
            hint = 'run: deferred schedule sync FILE';
    end if;
    for e in select x from json_array_elements($2) as x loop
        v_names := v_names || (e->>'name');
        begin
            return query select e->>'name', deferred.__schedule_set(e->>'name', e->>'rule',
                e->>'fn', coalesce(e->>'params', '{}')::json, e->'opts', $1);
        exception when data_exception then
            get stacked diagnostics v_hint = pg_exception_hint;
            raise exception using errcode = sqlstate,
                message = case when sqlerrm like 'schedule ''%' then sqlerrm
                               else format('schedule ''%s'': %s', e->>'name', sqlerrm) end,
                hint = v_hint;
        end;
    end loop;
    for e in
        select json_build_object('name', s.name) from deferred.__deferred_schedule s
        where s.source = $1 and s.name <> all (v_names) and deferred.__rule_is_mine(s.owner)
        order by s.name
    loop
        if prune then
            perform deferred.unschedule(e->>'name');
        end if;
        return query select e->>'name', case when prune then 'removed' else 'gone' end;
    end loop;
end
$$;
comment on function deferred.__schedule_sync is
    'part of "deferred schedule sync": the schedules of a file';
grant execute on function deferred.__schedule_sync to deferred_producer;
