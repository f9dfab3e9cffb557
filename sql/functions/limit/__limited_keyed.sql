-- Locks the keys of the jobs that were found, if nothing but keys limits these jobs. Then keyed is
-- true, and deferred.__limited_taken() takes the jobs in one statement. The usual key allows one
-- job at once. So its jobs may be taken if the key is locked and no job of it is running any more.
-- The limits need not be put together and counted.
--
-- The short way gives all its jobs one lease and returns all their params. If a job needs more than
-- that, keyed is false. Locks that were taken are kept.
create or replace function deferred.__limited_keyed(
    w deferred.__limited, p_max_attempts integer, p_max_bytes bigint)
returns deferred.__limited
language plpgsql
as $$
declare
    v_queue constant text := w.key_queues[1];
    q       deferred.__deferred_queue;
    v_busy  boolean;
begin
    w.keyed := false;
    if w.wide or w.bytes > p_max_bytes or w.lane_fns <> '{}' or v_queue <> any (w.key_queues)
        or exists (select from deferred.__deferred_function) then
        return w;
    end if;
    select x.* into q from deferred.__deferred_queue x where x.name = v_queue;
    if num_nonnulls(q.max_running, q.rate, q.key_rate) > 0
        or coalesce(q.max_attempts, p_max_attempts) = 1 then
        return w;
    end if;
    for v_turn in 1..2 loop
        select array_agg(x.tid), bool_or(x.tid is null) into w.limit_tids, v_busy
        from unnest(w.key_hashes) u(hash)
        left join lateral (
            select l.ctid as tid from deferred.__deferred_limit l
            where l.kind = 'key' and l.queue = v_queue and l.name = u.hash
            for update skip locked) x on true;
        exit when not v_busy or v_turn = 2;
        exit when not deferred.__limited_new(
            array_fill('key'::text, array[cardinality(w.key_hashes)]), w.key_queues, w.key_hashes);
    end loop;
    w.keyed := true;
    w.now := clock_timestamp();
    return w;
end
$$;
grant execute on function deferred.__limited_keyed to deferred_worker;
