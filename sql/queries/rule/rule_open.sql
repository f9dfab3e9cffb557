-- rule_open: make ready what rule_run reads from, in the same transaction.
-- $1 name (text)
-- returns one row, ignored
-- locks: the row of the rule, until the transaction ends
select deferred.__rule_open($1)
