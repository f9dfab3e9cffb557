-- rule_take: begin the transaction that evaluates a rule: its time limit counts from the next
-- statement on, and a client that has died is noticed.
-- params: name text, exclusive text
-- returns: ignored
-- $2 keep others from running or removing it
-- Locks: with $2 the row of the rule, until the transaction ends. Index: unique name of
--   __deferred_rule
select set_config('statement_timeout', (x.r).statement_timeout_ms::text, true),
       set_config('client_connection_check_interval', '1s', true)
from (select deferred.__rule_get($1, $2::text::bool) as r offset 0) x
