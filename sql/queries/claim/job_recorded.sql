-- job_recorded: what does the log say of these claims? Sent after the answer to a commit was lost,
-- and for attempts whose recording was refused. The function may have finished its job itself, or
-- the job was cancelled.
-- params: ids int8[], receipts int8[]
-- returns: n int8, outcome text
-- Rows: one row for each recorded claim: its position in the arrays from 1, outcome.
-- Locks: none. Index: __deferred_log_job.
select r.n, l.outcome
from unnest($1::int8[], $2::int8[]) with ordinality as r(id, receipt, n)
cross join lateral (select x.outcome from deferred.__deferred_log x
                    where x.job_id = r.id and x.receipt = r.receipt
                    order by x.finished_at desc limit 1) l
