-- POST /v1/jobs/batch: stores the jobs of a JSON array, or of one JSON object a line. All or none.
create or replace function deferred.__api_ids(t deferred.__deferred_token, body text) returns text
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    c_most constant integer := 10000;
    v_jobs json;
    v_n    integer;
begin
    if left(ltrim($2, E' \t\r\n'), 1) is distinct from '[' then
        select json_agg(deferred.__api_json('line ' || l.n, l.line) order by l.n) into v_jobs
        from string_to_table($2, E'\n') with ordinality l(line, n)
        where trim(l.line, E' \t\r') <> '';
        v_jobs := coalesce(v_jobs, '[]');
    else
        v_jobs := deferred.__api_json('body', $2);
    end if;
    v_n := json_array_length(v_jobs);
    if v_n not between 1 and c_most then
        raise exception using errcode = case when v_n = 0 then '22023' else '54000' end,
            message = format('the batch has %s jobs', v_n),
            hint = format('send 1 to %s jobs, as a JSON array or as one JSON object a line',
                          c_most);
    end if;
    perform deferred.__api_may(t, array_agg(j->>'fn'), array_agg(j->>'queue'))
    from json_array_elements(v_jobs) j where json_typeof(j) = 'object';
    return json_build_object('ids', array(select deferred.defer_many(v_jobs)))::text;
end
$$;
