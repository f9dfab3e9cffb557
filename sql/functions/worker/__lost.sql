-- Leases that have ended, or whose workers are known to be dead: what they hold is ready again, at
-- the tail of its lane. If a worker died with a batch, nobody knows which job had begun, so no job
-- gets an attempt. These jobs are suspect now, and are claimed one by one. Of a lease on one job
-- alone it was an attempt, and is recorded as such. Where it is known which of these had begun
-- (p_begun, of p_begun_worker), the others count as never claimed.
--
-- A job whose row somebody has locked stays, and so does its lease, for the next one who looks.
--
-- p_spare: a job on its last attempt is left until its lease ends. The next start with the pidfile
-- of that worker may know that the job had not begun.
--
-- An attempt that moved on does not count either: deferred.__moved_on().
create or replace function deferred.__lost(p_workers bigint[], p_outcome text,
    p_max_attempts integer, p_spare boolean default false, p_begun_worker bigint default null,
    p_begun bigint[] default null)
returns table (id bigint, fn text, attempt integer, final boolean, recorded boolean, worker bigint)
language plpgsql
as $$
#variable_conflict use_column
begin
    return query
    with ended as materialized (
        select l.ctid as tid, l.* from deferred.__deferred_lease l
        where p_workers is null and l.expires_at < now() order by l.expires_at
        limit 20 for update skip locked),
    left_behind as materialized (
        select l.ctid as tid, l.* from deferred.__deferred_lease l
        where l.worker = any (p_workers) for update skip locked),
    lease as materialized (
        select e.* from ended e union all select b.* from left_behind b),
    held as materialized (
        select h.id, l.tid as lease, u.unbegun, l.alone and not u.unbegun as alone, l.worker,
               l.receipt, l.claimed_at, l.snap,
               p_spare and l.expires_at >= now()
               and l.alone and h.attempt::bigint + 1 - coalesce(h.attempt_base, 0) >= coalesce(
                       h.max_attempts, (select q.max_attempts from deferred.__deferred_queue q
                                        where q.name = h.queue), p_max_attempts) as spared
        from lease l cross join lateral unnest(l.ids) i(id)
        cross join lateral (
            select l.alone and l.worker is not distinct from p_begun_worker
                   and coalesce(l.receipt <> all (p_begun), false) as unbegun) u
        join deferred.__deferred_hot h on h.id = any (array[i.id])
            and pg_visible_in_snapshot(h.xid, l.snap)
        -- One that its function has extended has a lease of its own.
        where p_workers is not null
           or not exists (select from deferred.__deferred_lease o
                          where o.receipt = l.receipt and o.expires_at >= now()
                            and h.id = any (o.ids) and pg_visible_in_snapshot(h.xid, o.snap))),
    row as materialized (
        select distinct on (h.id) h.id, h.fn, h.attempt, e.lease, e.worker, e.receipt, e.claimed_at,
               e.alone, e.unbegun,
               e.alone and p_outcome = 'lost' and not deferred.__moved_on(h.id, h.attempt + 1)
               and h.attempt + 1 - coalesce(h.attempt_base, 0) >= coalesce(h.max_attempts,
                       (select q.max_attempts from deferred.__deferred_queue q
                        where q.name = h.queue), p_max_attempts) as used_up
        from (select x.id, x.xid, x.fn, x.queue, least(x.attempt, 2147483646) as attempt,
                     greatest(x.attempt_base, 0) as attempt_base, x.max_attempts, e.lease
              from held e join deferred.__deferred_hot x on x.id = any (array[e.id])
                  and not e.spared
               -- Of the row that is locked once more: it may have been given back, and be held by
               -- somebody else, since it was read.
               and pg_visible_in_snapshot(x.xid, e.snap)
              for update of x skip locked) h
        join held e on e.id = h.id and e.lease = h.lease),
    back as (
        update deferred.__deferred_hot h
        set xid = pg_current_xact_id(), visible_at = now(), receipt = null, worker = null,
            suspect = h.suspect or not (r.alone or r.unbegun),
            attempt = r.attempt + r.alone::integer,
            attempt_base = least(coalesce(h.attempt_base, 0), 2147483646) + (r.alone
                and (p_outcome <> 'lost' or deferred.__moved_on(r.id, r.attempt + 1)))::integer
        from row r where h.id = any (array[r.id]) and not r.used_up),
    gone as (
        delete from deferred.__deferred_hot h using row r
        where h.id = any (array[r.id]) and r.used_up
        returning case when h.watched then deferred.__note_end(h.id, 0, 'lost') end),
    log as (
        insert into deferred.__deferred_log (job_id, attempt, outcome, final, error, started_at,
                                             worker, receipt)
        select r.id, r.attempt + 1, p_outcome, r.used_up,
               case when p_outcome = 'superseded' then 'replaced by a new start of check_deferred'
                    when p_workers is not null then 'check_deferred died'
                    else 'the lease ended before a result was recorded' end, r.claimed_at, r.worker,
                    r.receipt
        from row r where r.alone),
    over_ as (
        delete from deferred.__deferred_lease l
        where l.ctid = any (array(select x.tid from lease x where not exists (
            select from held e where e.lease = x.tid
                and e.id <> all (array(select r.id from row r))))))
    select r.id, r.fn::text, r.attempt + 1, r.used_up, r.alone, r.worker from row r;
end
$$;
comment on function deferred.__lost is
    'makes ready again what is held by leases that have ended; p_workers: by all leases of these, '
    'which are dead';
grant execute on function deferred.__lost to deferred_worker;
