-- rule_remove: remove a rule. Its jobs stay.
-- params: name text
-- returns: ignored
-- Locks: the row of the rule; refuses while it is being run
select deferred.__rule_remove($1)
