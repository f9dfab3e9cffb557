-- doctor_hidden: are there sessions in this database of which the role that acts sees nothing?
-- params: none
-- returns: hidden bool
-- Locks: none
select exists (select from pg_catalog.pg_stat_activity a
               where a.datname = current_database() and a.backend_type is null
                 and not pg_has_role(a.usesysid, 'usage'))
   and not pg_has_role('pg_read_all_stats', 'usage') as hidden
