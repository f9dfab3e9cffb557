-- Params as they were typed on a page, as JSON, or why they are not JSON. The column refused quotes
-- them, so it is only for the person who typed them.
create or replace function deferred.__act_params(params text, out value json, out refused text)
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    v_detail  text;
    v_context text;
begin
    value := params;
exception when data_exception or statement_too_complex then
    get stacked diagnostics v_detail = pg_exception_detail, v_context = pg_exception_context;
    refused := concat_ws(' ', 'params are not valid JSON:', nullif(v_detail, ''),
        substring(v_context from E'^JSON data, line [^\\n]*'),
        '(write an object such as {"id": 7})');
end
$$;
