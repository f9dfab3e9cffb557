-- Executes a batch in plain SQL, second way: one statement finishes a batch and claims the next. So
-- each batch is one round trip and one commit, and others see the lease. See plain_two.sql.
-- Variables: batch; window; turns, the last of which claims nothing, so that no job stays held;
-- tids, the held rows, '{}' at first.
\set turns :turns - 1
\set window case when :turns > 0 then :window else 0 end
\set seed random(1, 9000000000000000000)
with gone as (
    delete from plain.hot h where h.ctid = any (:tids::tid[]) and h.worker = :client_id::bigint
        and h.visible_at > now()
    returning h.id, h.attempt, h.worker, h.receipt, h.started_at),
done as (
    insert into plain.log (job_id, attempt, outcome, final, started_at, finished_at, worker,
        receipt, plugin, wait_us, run_us,
    user_us, sys_us, max_rss_kb)
    select g.id, g.attempt, 'ok', true, g.started_at, now(), g.worker, g.receipt,
        'sample 1.0 882c4595', 1, 1, 1, 1, 5000 from gone g),
seen as materialized (
    select h.ctid as tid, h.id from plain.hot h
    where h.queue = 'default' and h.due_at is null and not h.limited and h.fn is not null
        and h.visible_at <= now()
    order by h.priority desc, h.xid, h.id limit :window::int),
row as materialized (
    select h.ctid as tid from (select s.tid from seen s
        order by hashint8extended(s.id, :seed::bigint)) pick
    join plain.hot h on h.ctid = pick.tid where h.visible_at <= now() limit :batch::int for update
        of h skip locked),
taken as (
    update plain.hot h set attempt = h.attempt + 1, receipt = :seed::bigint,
        worker = :client_id::bigint, started_at = now(),
        visible_at = now() + interval '1 min'
    from row r where h.ctid = r.tid
    returning h.id, h.ctid as tid)
select coalesce(array_agg(t.tid), '{}')::text as tids, count(d.fn) + count(d.params) as jobs
from taken t join plain.job d on d.id = t.id \gset
