-- admin_purge_archived: drop a table that was set aside and has been archived.
-- params: name text, rows int8
-- returns: ignored
-- Rows: one row without meaning; an error if the table has another number of rows
-- Locks: the table, which nobody else uses
select deferred.__purge_archived($1, $2)
