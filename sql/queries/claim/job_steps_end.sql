-- job_steps_end: the steps of jobs that have succeeded are of no use any more. Sent behind the
-- statement that records these successes, for jobs that have steps only.
-- params: ids int8[], receipts int8[]
-- returns: nothing
-- Locks: the rows. Index: primary key of __deferred_step, __deferred_log_job
delete from deferred.__deferred_step s
using unnest($1::int8[], $2::int8[]) as r(id, receipt)
where s.job_id = any (array[r.id])
  and exists (select from deferred.__deferred_log l
              where l.job_id = r.id and l.receipt = r.receipt and l.final and l.outcome = 'ok')
