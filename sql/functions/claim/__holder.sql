-- Names the holder of a lock, by the transaction that has locked the row, else by the table it has
-- written to. The latter is all that is known of a row that is being added.
create or replace function deferred.__holder(p_table regclass, p_xid xid) returns text
language sql stable set search_path = pg_catalog, pg_temp
as $$
    with lock as (
        select l.pid, l.virtualtransaction from pg_locks l
        where l.locktype = 'transactionid' and l.transactionid = p_xid and l.granted),
    holder as (
        select k.pid from lock k
        union
        select l.pid from pg_locks l
        where not exists (select from lock) and l.locktype = 'relation' and l.relation = p_table
          and l.database = (select d.oid from pg_database d where d.datname = current_database())
          and l.mode = 'RowExclusiveLock' and l.granted
          and l.pid is distinct from pg_backend_pid())
    select coalesce(string_agg(w.who, ' or ' order by w.who), 'another transaction')
    from (select format('process %s of role ''%s''%s',
                        a.pid, a.usename, ', in a transaction open since '
                        || to_char(a.xact_start, 'YYYY-MM-DD HH24:MI:SS')) as who
          from holder h join pg_stat_activity a on a.pid = h.pid
          union all
          select format('the prepared transaction ''%s'' of role ''%s'', prepared at %s',
                        x.gid, x.owner,
                        to_char(x.prepared, 'YYYY-MM-DD HH24:MI:SS'))
          from pg_prepared_xacts x where x.transaction = p_xid or exists (
              select from holder h where h.pid is null)
          limit 3) w
$$;
comment on function deferred.__holder(regclass, xid) is
    'names the process or prepared transaction that holds a lock, its role, and since when';
