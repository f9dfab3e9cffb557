-- rule_ls: the rules one may see.
-- params: none
-- returns: name text, fn text, queue text, owner text, last_run_s int8?, last_run_ms int8?,
--   last_queued int8?, last_skipped int8?, last_failed int8?, last_error text, may_run bool,
--   json json
-- Rows: one for each rule. mine: the role may run it
-- Locks: none
select r.name, r.fn, r.queue, r.owner::text,
       deferred.__age_s(r.last_run_at) as last_run_s, r.last_run_ms,
       r.last_queued,
       r.last_skipped, r.last_failed, r.last_error, r.query is not null as may_run,
       json_build_object('id', r.id, 'name', r.name, 'query', r.query, 'fn', r.fn, 'params',
                         r.params, 'key_column', r.key_column,
           'queue', r.queue, 'priority', r.priority, 'opts', r.opts, 'owner', r.owner::text,
           'search_path', r.search_path,
           'statement_timeout_ms', r.statement_timeout_ms, 'created_at', r.created_at,
           'last_run_at', r.last_run_at,
           'last_run_ms', r.last_run_ms, 'last_run_by', r.last_run_by, 'last_queued', r.last_queued,
           'last_skipped', r.last_skipped,
           'last_failed', r.last_failed, 'last_error', r.last_error) as json
from deferred.__rules() r
