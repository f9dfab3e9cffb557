-- job_done: attempts that ended well and left no text: the hot row goes, the log row comes. The common case of
-- job_finish.sql, at two thirds of its cost: what the log row needs is picked from the arrays by position at the very
-- end, instead of travelling through every step (an array without NULLs of a type of fixed length is picked from at once).
-- Arrays in step, without NULLs: $1 id int8[], $2 receipt int8[], $3 time since the start interval[], $4 time since the
-- end interval[], $5 run_us int8[], $6 wait_us int8[], $7 user_us int8[], $8 sys_us int8[], $9 max_rss_kb int8[]
-- $10 plugin text, of all of them   $11 the receipts, each once, int8[]
-- returns, locks: as job_finish.sql, and so is what becomes of a job that others wait for
with lease as materialized (
    select l.receipt, l.snap, l.worker from deferred.__deferred_lease l where l.receipt = any ($11::int8[]) and l.expires_at - now() > interval '0'),
gone as (
    delete from deferred.__deferred_hot h
    using unnest($1::int8[], $2::int8[]) with ordinality as r(id, receipt, i) join lease l on l.receipt = r.receipt
    where h.id = any (array[r.id]) and pg_visible_in_snapshot(h.xid, l.snap)
    returning h.id, case when h.watched then deferred.__note_end(h.id, h.attempt + 1, 'ok') else h.attempt + 1 end as attempt, l.worker, l.receipt, r.i)
insert into deferred.__deferred_log (job_id, attempt, outcome, final, started_at, finished_at,
    worker, receipt, plugin, wait_us, run_us, user_us, sys_us, max_rss_kb)
select g.id, g.attempt, 'ok', true, now() - ($3::interval[])[g.i], now() - ($4::interval[])[g.i],
       g.worker, g.receipt, $10::text, ($6::int8[])[g.i], ($5::int8[])[g.i], ($7::int8[])[g.i], ($8::int8[])[g.i], ($9::int8[])[g.i]
from gone g
returning job_id
