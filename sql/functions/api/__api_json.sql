-- JSON of a request. Text that is not JSON is an error of its own, because the request itself is
-- malformed then.
create or replace function deferred.__api_json(what text, given text) returns json
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    v_hint text;
begin
    return deferred.__json($1, coalesce(nullif($2, ''), '{}'));
exception when invalid_text_representation then
    get stacked diagnostics v_hint = pg_exception_hint;
    raise exception using errcode = '22032', message = sqlerrm, hint = v_hint;
when statement_too_complex then
    raise exception using errcode = '54001', message = format('%s nests too deep', $1),
        hint = 'pass nested data as text';
end
$$;
