-- Executes a batch in plain SQL with our design. A transaction that commits asynchronously claims
-- it under a lease (lease_claim.sql). Another one records it, and waits for its commit.
-- Variables: batch. A held row does not move, so its ctid finds it. A row that was made ready again
-- has a transaction that the lease does not see.
\set receipt random(1, 9000000000000000000)
select coalesce(c.lease, 0) as lease, c.tids::text as tids, c.jobs
    from plain.claim(:batch::int, :client_id::bigint, :receipt::bigint) c \gset
with held as materialized (
    delete from plain.lease l where l.id = :lease::bigint and l.receipt = :receipt::bigint
        and l.expires_at > now()
    returning l.snap, l.worker, l.receipt, l.claimed_at),
gone as (
    delete from plain.ready h using held l where h.ctid = any (:tids::tid[])
        and pg_visible_in_snapshot(h.xid, l.snap)
    returning h.id, h.attempt, l.worker, l.receipt, l.claimed_at)
insert into plain.log (job_id, attempt, outcome, final, started_at, finished_at, worker, receipt,
    plugin, wait_us, run_us,
    user_us, sys_us, max_rss_kb)
select g.id, g.attempt + 1, 'ok', true, g.claimed_at, now(), g.worker, g.receipt,
    'sample 1.0 882c4595', 1, 1, 1, 1, 5000 from gone g;
