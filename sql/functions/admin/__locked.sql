-- Refuses what waited too long for the lock of a queue or schedule, and names who holds it.
create or replace function deferred.__locked(p_kind text, p_name text) returns void
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    v_table regclass := 'deferred.__deferred_' || p_kind;
    v_xid   xid;
begin
    execute format('select x.xmax from %s x where x.name = $1', v_table) into v_xid using p_name;
    raise exception using errcode = '55P03',
        message = format('%s ''%s'' is locked by %s', p_kind, left(p_name, 200),
                         deferred.__holder(v_table, v_xid)),
        hint = 'try again when that transaction has ended; an administrator can end it: '
               'select pg_terminate_backend(PROCESS)';
end
$$;
