-- A server may know a time zone no longer that a schedule has: its row says so, and the others are
-- shown.
create or replace function deferred.__schedule_time(at timestamptz, zone text) returns text
language plpgsql stable set search_path = pg_catalog, pg_temp
as $$
begin
    return to_char(at at time zone zone, 'YYYY-MM-DD HH24:MI:SS');
exception when invalid_parameter_value then
    return sqlerrm;
end
$$;
comment on function deferred.__schedule_time is
    'a moment as clocks in a zone show it, or that there is no such zone';
grant execute on function deferred.__schedule_time to deferred_producer, deferred_viewer;
