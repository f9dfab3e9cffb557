-- admin_migrate_changed: which functions and views are to be applied again? Missing ones count too,
-- for example after a dump was restored in part.
-- params: names text[], checksums text[]
-- returns: n int8
-- Arrays in step: $1 name (as deferred.__deferred_source has it), $2 SHA-256 of the file,
--   hexadecimal.
-- Rows: one row for each of them: its position in the arrays from 1.
-- Locks: none. Index: primary key of __deferred_source. The catalog is read once, not once for each
--   name.
select f.n
from unnest($1::text[], $2::text[]) with ordinality as f(name, checksum, n)
where not exists (select from deferred.__deferred_source s
                  where s.name = f.name and s.checksum = f.checksum)
   or f.name not in (select 'functions/' || p.proname
                     from pg_catalog.pg_proc p
                     where p.pronamespace = (select to_regnamespace('deferred'))
                     union all
                     select 'views/' || c.relname
                     from pg_catalog.pg_class c
                     where c.relnamespace = (select to_regnamespace('deferred')))
