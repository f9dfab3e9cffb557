-- rule_open: make ready what rule_run reads from, in the same transaction.
-- params: name text
-- returns: ignored
-- Locks: the row of the rule, until the transaction ends
select deferred.__rule_open($1)
