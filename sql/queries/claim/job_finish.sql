-- job_finish: attempts that ended for good: the hot row goes, the log row comes.
-- params: ids int8[], receipts int8[], outcomes text[], errors text[], exit_codes int4[],
--   signals int4[], since_start_us int8[], since_end_us int8[], plugins text[], wait_us int8[],
--   user_us int8[], sys_us int8[], max_rss_kb int8[], results text[], leases int8[]
-- returns: job_id int8
-- Arrays in step: $1 to $14, in the order of the parameters.
-- $7   microseconds since the start.
-- $8   microseconds since the end.
-- $15   the receipts, each once.
-- Rows: one row for each accepted id. One that is missing was refused: its lease had ended, or does
--   not hold it any more (sql/functions/claim/__claim.sql).
-- Locks: the hot rows. Index: primary key of __deferred_hot, __deferred_lease_receipt. The
--   condition on the end of a lease is written so that the planner cannot use an index for it, and
--   read all leases.
with lease as materialized (
    select l.receipt, l.snap, l.worker from deferred.__deferred_lease l
    where l.receipt = any ($15::int8[]) and l.expires_at - now() > interval '0'),
r as materialized (
    select * from unnest($1::int8[], $2::int8[], $3::text[], $4::text[], $5::int4[], $6::int4[],
                         $7::int8[], $8::int8[],
                         $9::text[], $10::int8[], $11::int8[], $12::int8[], $13::int8[],
                         $14::text[])
        as r(id, receipt, outcome, error, exit_code, signal, start_age, end_age, plugin, wait_us,
             user_us, sys_us, max_rss_kb, result)),
gone as (
    delete from deferred.__deferred_hot h using r join lease l on l.receipt = r.receipt
    where h.id = any (array[r.id]) and pg_visible_in_snapshot(h.xid, l.snap)
    returning h.id, case when h.watched then deferred.__note_end(h.id, h.attempt + 1, r.outcome)
                         else h.attempt + 1 end as attempt, l.worker, r.receipt, r.outcome, r.error,
                         r.exit_code, r.signal, r.start_age, r.end_age,
              r.plugin, r.wait_us, r.user_us, r.sys_us, r.max_rss_kb, r.result)
insert into deferred.__deferred_log (job_id, attempt, outcome, final, error, exit_code, signal,
                                     started_at, finished_at,
    worker, receipt, plugin, wait_us, run_us, user_us, sys_us, max_rss_kb, result)
select g.id, g.attempt, g.outcome, true, g.error, g.exit_code, g.signal,
       now() - g.start_age * interval '1 microsecond', now() - g.end_age * interval '1 microsecond',
       g.worker, g.receipt, g.plugin, g.wait_us, g.start_age - g.end_age, g.user_us, g.sys_us,
       g.max_rss_kb, g.result
from gone g
returning job_id
