-- job_done: attempts that ended well and left no text: the hot row goes, the log row comes. The
-- common case of job_finish.sql, at two thirds of its cost: what the log row needs is picked from
-- the arrays by position at the very end, instead of travelling through every step (an array
-- without NULLs of a type of fixed length is picked from at once).
-- params: ids int8[], receipts int8[], since_start interval[], since_end interval[], run_us int8[],
--   wait_us int8[], user_us int8[], sys_us int8[], max_rss_kb int8[], plugin text, leases int8[],
--   tids tid[]
-- returns: id int8
-- Arrays in step, without NULLs: $1 id, $2 receipt, $3 time since the start, $4 time since the end,
--   $5 run_us, $6 wait_us, $7 user_us, $8 sys_us, $9 max_rss_kb; $10 plugin text, of all of them;
--   $11 the receipts, each once; $12 places of the hot rows when they were claimed.
-- rows: one row for each id that was refused, mostly none: for a reason of job_finish.sql A row
--   stays where it is while it is held, unless somebody comes to wait for its job, or a limit to be
--   about it, and by its place it costs a third less than by its id: so that is done for those only
--   that have moved, and nothing else is said of a row in a way that an index could take.
-- locks: the hot rows; and what becomes of a job that others wait for: as job_finish.sql. Indexes:
--   __deferred_lease_receipt, primary key of __deferred_hot
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
