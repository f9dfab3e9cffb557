-- rule_add: store a rule, which then belongs to the role that acts, with its present search_path.
-- $1 name, $2 query, $3 function (text), $4 params (json), $5 key column, $6 queue, NULL: default (text), $7 priority (int4),
-- $8 further options of the jobs (json), $9 statement timeout in milliseconds (int8)
-- returns rule id (int8)
-- locks: none that others wait for, but for a rule of the same name. Index: unique name of __deferred_rule
select deferred.__rule_add($1, $2, $3, $4, $5, $6, $7, $8, $9, pg_catalog.current_setting('search_path'))
