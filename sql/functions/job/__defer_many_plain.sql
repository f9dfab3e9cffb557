-- Most jobs have no option. A record of two columns then costs a third of one with all options.
create or replace function deferred.__defer_many_plain(jobs json, out plain boolean,
                                                       out fns text[], out params json[])
language plpgsql stable set search_path = pg_catalog, pg_temp
as $$
declare
    v_inexact boolean;
    bad       record;
begin
    if json_typeof(jobs) is distinct from 'array' then
        raise exception using errcode = '22023',
            message = format('jobs must be a JSON array, but a JSON %s was given',
                             coalesce(json_typeof(jobs), 'null')),
            hint = 'for example [{"fn": "noop"}, {"fn": "send_mail", "params": {}}]';
    end if;
    perform deferred.__json_check('jobs', jobs);
    plain := not exists (
        select from (select json_object_keys(case json_typeof(e.job) when 'object' then e.job
                                                                     else '{"": 0}' end) as name
                     from (select json_array_elements(jobs) as job) e) k
        where k.name <> all ('{fn,params}'));
    if not plain then
        select e.n, json_typeof(e.job) as kind, k.name into bad
        from json_array_elements(jobs) with ordinality as e(job, n)
        left join lateral json_object_keys(case json_typeof(e.job) when 'object' then e.job end)
            as k(name) on true
        where json_typeof(e.job) <> 'object'
           or k.name <> all ('{fn,params}' || deferred.__job_options()) limit 1;
        if bad.kind <> 'object' then
            raise exception using errcode = '22023',
                message = format('job %s must be a JSON object, but a JSON %s was given',
                                 bad.n, bad.kind),
                hint = 'for example [{"fn": "noop"}]';
        elsif bad.kind = 'object' then
            raise exception using errcode = '22023',
                message = format('job %s: option ''%s'' is unknown', bad.n, left(bad.name, 200)),
                hint = 'known besides fn and params: '
                       || array_to_string(deferred.__job_options(), ', ');
        end if;
        return;
    end if;
    -- In a record JSON null is NULL, and a string has lost its bytes. "->" keeps both.
    select array_agg(j.fn), array_agg(coalesce(j.params, '{}')),
           bool_or(j.params is null or left(j.params::text, 1) = '"')
    into fns, params, v_inexact from json_to_recordset(jobs) as j(fn text, params json);
    if v_inexact and jobs::text like any (array['%params%', E'%\\\\u%']) then
        params := array(select coalesce(e.job->'params', '{}')
                        from (select json_array_elements(jobs) as job) e);
    end if;
end
$$;
comment on function deferred.__defer_many_plain is
    'part of deferred.defer_many(): refuses other JSON than jobs; reads jobs without options';
grant execute on function deferred.__defer_many_plain to deferred_producer;
