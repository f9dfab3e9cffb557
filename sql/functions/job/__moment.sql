-- A moment as people write it. Only a cast knows which texts are moments, so its error is replaced.
create or replace function deferred.__moment(name text, moment text) returns timestamptz
language plpgsql stable strict
as $$
begin
    return moment::pg_catalog.timestamptz;
exception when data_exception then
    raise exception using errcode = '22023',
        message = format('option ''%s'': ''%s'' is not a time', name, left(moment, 200)),
        hint = 'write a time such as 2026-01-31 14:30, or 2026-01-31T14:30:00+01:00';
end
$$;
comment on function deferred.__moment(text, text) is 'a moment as people write it';
grant execute on function deferred.__moment(text, text) to deferred_producer;
