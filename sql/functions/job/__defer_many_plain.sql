-- Most jobs have no option. A record of two columns then costs a third of one with all options. An
-- element that is not an object counts as a job with options, which deferred.__defer_many_check()
-- refuses.
create or replace function deferred.__defer_many_plain(jobs json, out plain boolean,
                                                       out fns text[], out params json[])
language plpgsql stable set search_path = pg_catalog, pg_temp
as $$
declare
    v_inexact boolean;
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
    if not plain then return; end if;
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
    'part of deferred.defer_many(): refuses what is not an array; reads jobs without options';
grant execute on function deferred.__defer_many_plain to deferred_producer;
