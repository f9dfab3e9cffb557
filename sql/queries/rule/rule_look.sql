-- rule_look: estimate, plan and first rows of a rule. The transaction is to be rolled back: see sql/functions/rule/__rule_run.sql.
-- $1 name (text); $2 how many rows (int4)
-- returns in the first row: estimated rows (float8), the plan (text), and the plan as JSON string; in each further one: NULL, NULL, a JSON
-- object of key and params, key (text), params (json)
-- locks: none but those of the rule's query
select l.estimate, l.plan,
       case when l.plan is not null then pg_catalog.to_json(l.plan) else pg_catalog.json_build_object('key', l.key, 'params', l.params) end,
       l.key, l.params
from deferred.__rule_look($1, $2) l
