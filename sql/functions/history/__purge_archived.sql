-- Part of "deferred purge --archive": drops a table at its end. It refuses if the table does not
-- hold as many rows as were archived, which only its owner can have brought about.
create or replace function deferred.__purge_archived(aside text, rows_written bigint) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_rows bigint;
begin
    if not exists (select from deferred.__asides() a where a.name = aside) then
        raise exception using errcode = '22023',
            message = format('table ''%s'' was not set aside for the archive', aside),
            hint = 'run deferred purge with --archive';
    end if;
    execute format('lock table deferred.%I in access exclusive mode', aside);
    execute format('select count(*) from deferred.%I', aside) into v_rows;
    if v_rows is distinct from rows_written then
        raise exception using errcode = '55000',
            message = format('table ''deferred.%s'' has %s rows, but %s were archived',
                             aside, v_rows, rows_written),
            hint = 'run deferred purge with --archive again';
    end if;
    execute format('drop table deferred.%I', aside);
end
$$;
grant execute on function deferred.__purge_archived to deferred_purger;
