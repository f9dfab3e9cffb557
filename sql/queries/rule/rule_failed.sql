-- rule_failed: note that a run of a rule failed as a whole.
-- $1 name, $2 why (text)
-- returns one row, ignored
-- locks: the row of the rule
select deferred.__rule_failed($1, $2)
