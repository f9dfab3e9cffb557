-- The jobs of a key behind its first one that a claim may take along with it. The worker runs them
-- one after the other. Each is ready, has a known function and the priority of the first one, needs
-- no lease of its own, and is not watched. The run ends before the first job of which that is not
-- true. The planner inlines this.
create or replace function deferred.__limited_run(
    p_queue text, p_hash bigint, p_first bigint, p_priority smallint, p_most integer,
    p_known text[])
returns table (tids tid[], last bigint, bytes bigint)
language sql stable rows 1
as $$
    select array_agg(r.tid order by r.id), max(r.id), sum(r.bytes)
    from (select x.tid, x.id, x.bytes, bool_and(x.fits) over (order by x.id) as fits
          from (select h.ctid as tid, h.id, coalesce(h.params_bytes, 1024) as bytes,
                       h.due_at is null and h.receipt is null and h.fn is not null
                           and (p_known is null or h.fn = any (p_known))
                           and coalesce(h.concurrency, 1) = 1 and h.priority = p_priority
                           and h.watched is null and h.suspect is not true
                           and h.max_attempts is distinct from 1
                           and (h.expires_at <= now()) is not true as fits
                from deferred.__deferred_hot h
                where h.queue = p_queue and h.concurrency_key is not null
                  and hashtextextended(h.concurrency_key, 0) = p_hash and h.id > p_first
                  and (h.due_at is null or h.attempt > coalesce(h.attempt_base, 0))
                order by h.queue, hashtextextended(h.concurrency_key, 0), h.id limit p_most) x) r
    where r.fits
$$;
grant execute on function deferred.__limited_run to deferred_worker;
