create or replace function deferred.__defer_many_check(jobs json) returns void
language plpgsql stable set search_path = pg_catalog, pg_temp
as $$
declare
    bad record;
begin
    select e.n, json_typeof(e.job) as kind, k.name into bad
    from json_array_elements(jobs) with ordinality as e(job, n)
    left join lateral json_object_keys(case json_typeof(e.job) when 'object' then e.job end)
        as k(name) on true
    where json_typeof(e.job) <> 'object'
       or k.name <> all ('{fn,params}' || deferred.__job_options()) limit 1;
    if found and bad.kind <> 'object' then
        raise exception using errcode = '22023',
            message = format('job %s must be a JSON object, but a JSON %s was given',
                             bad.n, bad.kind),
            hint = 'for example [{"fn": "noop"}]';
    elsif found then
        raise exception using errcode = '22023',
            message = format('job %s: option ''%s'' is unknown', bad.n, left(bad.name, 200)),
            hint = 'known besides fn and params: '
                   || array_to_string(deferred.__job_options(), ', ');
    end if;
end
$$;
comment on function deferred.__defer_many_check is
    'part of deferred.defer_many(): refuses jobs that are not objects with known options';
grant execute on function deferred.__defer_many_check to deferred_producer;
