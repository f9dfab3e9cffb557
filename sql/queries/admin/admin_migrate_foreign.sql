-- admin_migrate_foreign: does the database have steps that are not those of this program, though their numbers are?
-- Arrays in step: $1 version int4[], $2 name text[], all steps of the program
-- returns at most one row, the first such step: version (int4), name (text)
-- locks: none
select m.version, m.name
from deferred.__deferred_migration m join unnest($1::int4[], $2::text[]) as s(version, name) using (version)
where m.name <> s.name
order by m.version limit 1
