-- True if no job has a member besides fn and params, which is what most jobs are like.
create or replace function deferred.__defer_many_names(jobs json) returns boolean
language plpgsql stable set search_path = pg_catalog, pg_temp
as $$
declare
    bad record;
begin
    if not exists (
        select from (select json_object_keys(case json_typeof(e.job) when 'object' then e.job
                                                                     else '{"": 0}' end) as name
                     from (select json_array_elements(jobs) as job) e) k
        where k.name <> all ('{fn,params}')) then
        return true;
    end if;
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
    return false;
end
$$;
comment on function deferred.__defer_many_names is
    'part of deferred.defer_many(): whether jobs have no options; refuses other JSON than jobs';
