-- job_retry: attempts that ended without success, the job is to be tried again.
-- params: ids int8[], receipts int8[], outcomes text[], errors text[], exit_codes int4[],
--   signals int4[], since_start_us int8[], since_end_us int8[], plugins text[], wait_us int8[],
--   user_us int8[], sys_us int8[], max_rss_kb int8[], results text[], delay_ms int8[],
--   marks int4[], leases int8[]
-- returns: as job_finish
-- $1..$14 as in job_finish.sql.
-- $15   delay in milliseconds. 0: ready at once.
-- $16   a sum. 1: it does not count against the limit. 2: a suspect, which is claimed alone next.
-- $17   the receipts, each once.
-- Rows: one row for each accepted id.
-- Locks: the hot rows. Index: primary key of __deferred_hot.
with lease as materialized (
    select l.receipt, l.snap, l.worker from deferred.__deferred_lease l
    where l.receipt = any ($17::int8[]) and l.expires_at - now() > interval '0'),
r as materialized (
    select * from unnest($1::int8[], $2::int8[], $3::text[], $4::text[], $5::int4[], $6::int4[],
                         $7::int8[], $8::int8[],
                         $9::text[], $10::int8[], $11::int8[], $12::int8[], $13::int8[],
                         $14::text[], $15::int8[], $16::int4[])
        as r(id, receipt, outcome, error, exit_code, signal, start_age, end_age, plugin, wait_us,
             user_us, sys_us, max_rss_kb, result, delay_ms, marks)),
back as (
    update deferred.__deferred_hot h
    set receipt = null, worker = null, suspect = r.marks & 2 <> 0, attempt = h.attempt + 1,
        attempt_base = coalesce(h.attempt_base, 0) + (r.marks & 1),
        xid = pg_current_xact_id(),
        due_at = case when r.delay_ms > 0 then now() + r.delay_ms * interval '1 millisecond' end,
        visible_at = now() + r.delay_ms * interval '1 millisecond'
    from r join lease l on l.receipt = r.receipt
    where h.id = any (array[r.id]) and pg_visible_in_snapshot(h.xid, l.snap)
    returning h.id, h.attempt, l.worker, r.receipt, r.outcome, r.error, r.exit_code, r.signal,
              r.start_age, r.end_age,
              r.plugin, r.wait_us, r.user_us, r.sys_us, r.max_rss_kb, r.result)
insert into deferred.__deferred_log (job_id, attempt, outcome, final, error, exit_code, signal,
                                     started_at, finished_at,
    worker, receipt, plugin, wait_us, run_us, user_us, sys_us, max_rss_kb, result)
select b.id, b.attempt, b.outcome, false, b.error, b.exit_code, b.signal,
       now() - b.start_age * interval '1 microsecond', now() - b.end_age * interval '1 microsecond',
       b.worker, b.receipt, b.plugin, b.wait_us, b.start_age - b.end_age, b.user_us, b.sys_us,
       b.max_rss_kb, b.result
from back b
returning job_id
