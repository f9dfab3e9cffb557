-- job_done: attempts that ended well and left no text: the hot row goes, the log row comes. This is
-- the common case of job_finish.sql, at two thirds of its cost. The columns of the log row are
-- picked from the arrays by position at the very end. They do not travel through every step.
-- Picking is cheap from arrays without NULLs of a type of fixed length.
-- params: ids int8[], receipts int8[], since_start interval[], since_end interval[], run_us int8[],
--   wait_us int8[], user_us int8[], sys_us int8[], max_rss_kb int8[], plugin text, leases int8[],
--   tids tid[]
-- returns: id int8
-- Arrays in step, without NULLs: $1 to $9, in the order of the parameters.
-- $3   time since the start.
-- $4   time since the end.
-- $10   plugin of all of them.
-- $11   the receipts, each once.
-- $12   places of the hot rows when they were claimed.
-- Rows: one for each id that was refused, for a reason of job_finish.sql. Mostly there is none. A
--   held row keeps its place, unless another job begins to wait for its job, or a limit begins to
--   apply to it. Access by place costs a third less than by id. Only rows that have moved are
--   therefore found by id. No other condition on a row may fit an index.
-- Locks: the hot rows; and what becomes of a job that others wait for: as job_finish.sql. Indexes:
--   __deferred_lease_receipt, primary key of __deferred_hot.
with lease as materialized (
    select l.receipt, l.snap, l.worker from deferred.__deferred_lease l
    where l.receipt = any ($11::int8[]) and l.expires_at - now() > interval '0'),
gone as (
    delete from deferred.__deferred_hot h
    using unnest($1::int8[], $2::int8[], $12::tid[]) with ordinality as r(id, receipt, tid, i)
    join lease l on l.receipt = r.receipt
    where h.ctid = r.tid and (h.id = r.id) is true and pg_visible_in_snapshot(h.xid, l.snap)
    returning h.id, case when h.watched then deferred.__note_end(h.id, h.attempt + 1, 'ok')
                         else h.attempt + 1 end as attempt, l.worker, l.receipt, r.i),
taken as materialized (
    select count(*) as n from gone),
moved as (
    delete from deferred.__deferred_hot h
    using unnest($1::int8[], $2::int8[]) with ordinality as r(id, receipt, i)
    join lease l on l.receipt = r.receipt
    where (select t.n from taken t) < cardinality($1::int8[])
      and r.i <> all (array(select g.i from gone g))
      and h.id = any (array[r.id]) and pg_visible_in_snapshot(h.xid, l.snap)
    returning h.id, case when h.watched then deferred.__note_end(h.id, h.attempt + 1, 'ok')
                         else h.attempt + 1 end as attempt, l.worker, l.receipt, r.i),
log as (
    insert into deferred.__deferred_log (job_id, attempt, outcome, final, started_at, finished_at,
        worker, receipt, plugin, wait_us, run_us, user_us, sys_us, max_rss_kb)
    select g.id, g.attempt, 'ok', true, now() - ($3::interval[])[g.i],
           now() - ($4::interval[])[g.i],
           g.worker, g.receipt, $10::text, ($6::int8[])[g.i], ($5::int8[])[g.i], ($7::int8[])[g.i],
           ($8::int8[])[g.i], ($9::int8[])[g.i]
    from (select * from gone union all select * from moved) g)
select r.id from unnest($1::int8[]) with ordinality r(id, i)
where (select t.n from taken t) + (select count(*) from moved) < cardinality($1::int8[])
  and r.i <> all (array(select g.i from gone g union all select m.i from moved m))
