-- rule_add: store a rule, which then belongs to the role that acts, with its present search_path.
-- params: name text, query text, fn text, params json, key_column text, queue text, priority int4,
--   opts json, timeout_ms int8
-- returns: id int8
-- Locks: none that others wait for, except for a rule of the same name. Index: unique name of
--   __deferred_rule.
select deferred.__rule_add($1, $2, $3, $4, $5, $6, $7, $8, $9,
                           pg_catalog.current_setting('search_path')) as id
