-- rule_run: make jobs of all the rows of a rule, in the transaction of rule_open, and wake idle
-- workers. The caller clears with the commit what the query left in the session.
-- params: name text, estimate float8, notices text, flow int8?
-- returns: queued int8, skipped int8, failed int8, examples json, woken void
-- $3 report progress by notices of SQLSTATE DR001. $4 flow, or a job of it; NULL: none.
-- Rows: one row. skipped: their key is hot. examples: up to 3 of the failed ones, params cut to 200
--   characters.
-- Locks: the row of the rule and the keys queued, until the transaction ends. Another transaction
--   that defers a job with one of these keys waits. The row of the flow, which those who add to it
--   share.
-- Index: __deferred_hot_key.
select r.queued, r.skipped, r.failed, r.examples, case when r.queued > 0
    then deferred.__wake((deferred.__rule_get($1, false)).queue) end as woken
from deferred.__rule_run($1, $2, $3::text::bool, $4::int8) r
