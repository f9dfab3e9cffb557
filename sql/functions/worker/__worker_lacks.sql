-- Statements that give deferred_worker back what it needs, with "; " between; NULL: it has all.
-- Rights that every claim and record needs. A list, for the schema gives more than has to be there.
create or replace function deferred.__worker_lacks() returns text
language sql stable set search_path = pg_catalog, pg_temp
as $$
    select string_agg(format('grant %s on %s to deferred_worker', n.needs, n.name),
                      '; ' order by n.name, n.needs)
    from (values ('deferred.__deferred', 'select'), ('deferred.__deferred_hot', 'select'),
                 ('deferred.__deferred_hot', 'update'), ('deferred.__deferred_hot', 'delete'),
                 ('deferred.__deferred_log', 'select'), ('deferred.__deferred_log', 'insert'),
                 ('deferred.__deferred_queue', 'select'),
                 ('deferred.__deferred_migration', 'select'),
                 ('deferred.__deferred_cursor', 'insert'), ('deferred.__deferred_cursor', 'delete'),
                 ('deferred.__deferred_lease', 'insert'), ('deferred.__deferred_lease', 'update'),
                 ('deferred.__deferred_lease', 'delete'),
                 ('deferred.__deferred_progress', 'insert'),
                 ('deferred.__deferred_limit', 'insert')) n(name, needs)
    where not has_table_privilege('deferred_worker', n.name, n.needs)
$$;
grant execute on function deferred.__worker_lacks to deferred_producer, deferred_viewer,
      deferred_purger, deferred_http;
