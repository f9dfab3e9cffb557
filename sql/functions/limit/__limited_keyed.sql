-- Locks limits and chooses jobs if nothing but keys limits the jobs that were found. Otherwise the
-- functions __limited_lock() and __limited_choose() do that. The usual key allows one job at once.
-- Then a job may be taken if its key is locked and the last job of the key is not running any more.
-- The limits need not be put together and counted.
--
-- If another way must be taken, keyed is false. Locks that were taken are kept.
create or replace function deferred.__limited_keyed(w deferred.__limited)
returns deferred.__limited
language plpgsql
as $$
declare
    v_queue constant text := w.key_queues[1];
    q       deferred.__deferred_queue;
    v       record;
begin
    w.keyed := false;
    if w.wide or w.lane_fns <> '{}' or v_queue <> any (w.key_queues)
        or exists (select from deferred.__deferred_function) then
        return w;
    end if;
    select x.* into q from deferred.__deferred_queue x where x.name = v_queue;
    if num_nonnulls(q.max_running, q.rate, q.key_rate) > 0 then
        return w;
    end if;
    for v_turn in 1..2 loop
        select array_agg(u.tid) as tids, array_agg(x.tid) as limit_tids,
               array_agg(x.running[1]) as running,
               coalesce(bool_or(x.running[2] is not null), false) as several,
               coalesce(bool_or(x.tid is null), false) as busy
        into v
        from unnest(w.key_tids, w.key_hashes) u(tid, hash)
        left join lateral (
            select l.ctid as tid, l.running from deferred.__deferred_limit l
            where l.kind = 'key' and l.queue = v_queue and l.name = u.hash
            for update skip locked) x on true;
        if v.several then
            return w;
        end if;
        exit when not v.busy or v_turn = 2;
        exit when not deferred.__limited_new(
            array_fill('key'::text, array[cardinality(w.key_hashes)]), w.key_queues, w.key_hashes);
    end loop;
    w.keyed := true;
    w.busy := v.busy;
    w.now := clock_timestamp();
    -- A snapshot that was taken under the locks: see deferred.__limited_lock().
    select array_agg(c.tid), array_agg(c.limit_tid), array_agg(c.n::integer),
           count(*) + w.busy::integer
    into w.tids, w.limit_tids, w.job_keys, w.seen
    from (select h.ctid as tid, j.limit_tid,
                 row_number() over (order by h.priority desc, h.id) as n
          from unnest(v.tids, v.limit_tids, v.running) j(tid, limit_tid, running)
          join deferred.__deferred_hot h on h.ctid = j.tid
          where j.limit_tid is not null and h.due_at is null and h.receipt is null
            and (select r.receipt from deferred.__deferred_hot r
                 where r.id = any (array[j.running])) is null) c;
    w.rates := array_fill(null::double precision, array[coalesce(cardinality(w.tids), 0)]);
    w.lease_ms := array_fill(q.visibility_timeout_ms, array[coalesce(cardinality(w.tids), 0)]);
    w.max_attempts := array_fill(q.max_attempts, array[coalesce(cardinality(w.tids), 0)]);
    return w;
end
$$;
grant execute on function deferred.__limited_keyed to deferred_worker;
