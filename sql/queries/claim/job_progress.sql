-- job_progress: what functions report of attempts in progress. Fenced by the receipt.
-- params: ids int8[], receipts int8[], done int8[], total int8[], texts text[], reported_us int8[]
-- returns: nothing
-- Arrays in step: $1 id, $2 receipt, $3 done, $4 total (each below 0: not told), $5 text, $6
--   microseconds since it was reported.
-- Locks: the hot rows, then those of __deferred_progress, in the order of deferred.finish() and
--   deferred.cancel(). Hot rows locked by others are skipped. Otherwise a function that has
--   finished its job without a commit would hold up the whole cycle. Index: primary keys of
--   __deferred_hot and __deferred_progress.
with r as materialized (
    select * from unnest($1::int8[], $2::int8[], $3::int8[], $4::int8[], $5::text[], $6::int8[])
        as r(id, receipt, done, total, text, age_us)),
row as materialized (
    select h.id, h.attempt + 1 as attempt, r.done, r.total, r.text, r.age_us
    from r join deferred.__deferred_hot h on h.id = any (array[r.id])
        -- An attempt whose lease was extended has two leases with its receipt.
        and exists (select from deferred.__deferred_lease l
                    where l.receipt = r.receipt and pg_visible_in_snapshot(h.xid, l.snap))
    for update of h skip locked)
insert into deferred.__deferred_progress as p (job_id, attempt, done, total, text, reported_at)
select h.id, h.attempt, case when h.done >= 0 then h.done end,
       case when h.total > 0 then h.total end, nullif(h.text, ''),
       now() - h.age_us * interval '1 microsecond'
from row h
on conflict (job_id) do update
set attempt = excluded.attempt, done = excluded.done, total = excluded.total, text = excluded.text,
    reported_at = excluded.reported_at
