-- job_step: steps that functions have saved, to be durable before the functions go on.
-- params: ids int8[], receipts int8[], names text[], values text[], resets int4[]
-- returns: id int8, outcome text, why text?
-- Arrays in step: id, receipt, name of the step, its value as JSON, 1: the attempt does not count
--   if the step is new.
-- Rows: one for each, see deferred.__step_save().
-- Locks: the hot rows; rows locked by others are left alone. Index: primary keys of __deferred_hot
--   and __deferred_step, __deferred_lease_receipt.
select s.id, s.outcome, s.why
from deferred.__step_save($1::int8[], $2::int8[], $3::text[], $4::text[], $5::int4[]) s
