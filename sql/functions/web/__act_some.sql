-- Does to the next jobs that match a filter what an operator asked for on a page, as
-- deferred.__act(). That are some 1,000, or as many as there is time for. For filter and at see
-- deferred.__matching(). A dry run only counts the jobs.
create or replace function deferred.__act_some(verb text, state text, filter json, at json,
                                               dry boolean, who text, address text,
    out done bigint, out refused bigint, out why text, out after json)
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
declare
    v_most   constant bigint := 1000;
    v_begun  timestamptz := clock_timestamp();
    v        record;
    v_filter json := json_strip_nulls((
        select json_object_agg(f.key, f.value)
        from (select 'state' as key, to_json(state) as value
              union all select e.key, e.value from json_each(filter) e) f));
begin
    if verb not in ('retry', 'cancel') is not false then
        raise exception using errcode = '22023',
            message = format('action ''%s'' on many jobs is unknown', left(verb, 100)),
            hint = 'deferred_web and the database have different versions: run deferred migrate '
                   'of the newer one';
    end if;
    perform deferred.__act_allowed();
    if octet_length(v_filter::text) > 4000 then
        raise exception using errcode = '22003',
            message = 'the filter is longer than 4,000 bytes',
            hint = 'filter by fewer or shorter values';
    end if;
    done := 0;
    refused := 0;
    after := at;
    loop
        if verb = 'retry' then
            select s.* into v from deferred.__retry_some(state, filter, after, dry,
                case when dry then v_most::integer else 250 end) s;
        else
            select s.* into v from deferred.__cancel_some(state, filter, after, dry,
                case when dry then v_most::integer else 250 end) s;
        end if;
        done := done + v.done;
        refused := refused + v.refused;
        why := coalesce(why, v.why);
        after := v.after;
        exit when after is null or done + refused >= v_most
            or clock_timestamp() > v_begun + interval '600 milliseconds';
    end loop;
    if not dry and done + refused > 0 then
        insert into deferred.__deferred_action (who, role, login, address, verb, filter, jobs,
                                                refused)
        values (left(who, 200), deferred.__actor(), session_user,
                left(address, 200), verb, v_filter, done,
                case when refused > 0 then left(format('%s jobs: %s', refused, why), 1000) end);
    end if;
end
$$;
grant execute on function deferred.__act_some to deferred_operator;
