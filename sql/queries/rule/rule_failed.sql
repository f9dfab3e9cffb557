-- rule_failed: note that a run of a rule failed as a whole.
-- params: name text, error text
-- returns: ignored
-- Locks: the row of the rule
select deferred.__rule_failed($1, $2)
