-- rule_look: estimate, plan and first rows of a rule. The transaction is to be rolled back: see
-- sql/functions/rule/__rule_run.sql.
-- params: name text, rows_max int4
-- returns: estimate float8?, plan text, plan_json json, key text?, params json
-- Rows: the first has estimate and plan; each other one is a job
-- Locks: none but those of the rule's query
select l.estimate, l.plan,
       case when l.plan is not null then pg_catalog.to_json(l.plan)
            else pg_catalog.json_build_object('key', l.key, 'params', l.params) end as plan_json,
       l.key, l.params
from deferred.__rule_look($1, $2) l
