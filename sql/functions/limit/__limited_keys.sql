-- Adds the jobs of a queue whose key lets them run next to what a claim under limits looks at. The
-- search begins at a random key. Of each key the first job counts, and those behind it that
-- deferred.__limited_run() adds, p_run in all. If the key allows more than one at once, its first
-- jobs count. A job that was deferred with a delay has not arrived yet. One that waits for its next
-- attempt has. One statement walks from key to key: a statement for each key would take three times
-- as long.
create or replace function deferred.__limited_keys(
    w deferred.__limited, p_queue text, p_n integer, p_known text[], p_seed bigint,
    p_run integer)
returns deferred.__limited
language plpgsql
as $$
declare
    -- Jobs that are found, or keys looked at, in a queue. Then the search ends.
    v_found_most  constant integer := least(p_n, 500);
    v_looked_most constant integer := greatest(300, 2 * v_found_most);
    v_lowest      constant bigint := -9223372036854775808;
    v_highest     constant bigint := 9223372036854775807;
    v_pivot       constant bigint := hashint8extended(p_seed, 0);
    v_looked      integer := 0;
    v_found       integer := 0;
    v_rate        double precision;  -- of each key of the queue
    v_burst       integer;
    v_now         constant timestamptz := clock_timestamp();
    v             record;
begin
    select q.key_rate, coalesce(q.key_burst, 1) into v_rate, v_burst
    from deferred.__deferred_queue q where q.name = p_queue;
    for lap in 0..1 loop
        with recursive walk as (
            select v_looked as looked, v_found as found,
                   case lap when 0 then v_pivot else v_lowest end as hash, 0::bigint as behind,
                   null::bigint as first, null::bigint as last, null::tid[] as tids, 1 as most,
                   null::bigint as bytes, null::double precision as tokens
            union all
            select k.looked + 1, k.found + coalesce(cardinality(j.tids), 0), x.hash, v_highest,
                   x.id, coalesce(r.last, x.id), j.tids, x.most, x.bytes + coalesce(r.bytes, 0),
                   x.tokens
            from walk k
            cross join lateral (
                select case when case when h.concurrency > 1 then exists (
                                select from deferred.__limited_keys_wide(
                                    p_queue, hashtextextended(h.concurrency_key, 0), 1, p_known))
                            else h.due_at is null and h.receipt is null
                                 and (p_known is null or h.fn = any (p_known)) end
                            then h.ctid end as tid,
                       h.id, coalesce(h.concurrency, 1) as most,
                       case when (h.suspect or h.max_attempts = 1 or h.expires_at <= now())
                                is not true
                            then coalesce(h.params_bytes, 1024) end as bytes,
                       hashtextextended(h.concurrency_key, 0) as hash, h.priority,
                       h.watched is null and coalesce(h.concurrency, 1) = 1 as leads,
                       case when v_rate is not null then (
                           select deferred.__tokens(l.tokens, l.tokens_at, v_rate, v_burst, v_now)
                           from deferred.__deferred_limit l
                           where l.kind = 'key' and l.queue = p_queue
                             and l.name = hashtextextended(h.concurrency_key, 0)::text) end
                           as tokens
                from deferred.__deferred_hot h
                where h.queue = p_queue and h.concurrency_key is not null
                  and (hashtextextended(h.concurrency_key, 0), h.id) > (k.hash, k.behind)
                  and (lap = 0 or hashtextextended(h.concurrency_key, 0) < v_pivot)
                  and h.fn is not null
                  and (h.due_at is null or h.attempt > coalesce(h.attempt_base, 0))
                order by h.queue, hashtextextended(h.concurrency_key, 0), h.id limit 1) x
            left join lateral deferred.__limited_run(
                p_queue, x.hash, x.id, x.priority, least(p_run, v_found_most - k.found) - 1,
                p_known) r on p_run > 1 and x.tid is not null and x.leads
            cross join lateral (select case when x.tid is not null and (x.tokens < 1) is not true
                                            then x.tid || r.tids end as tids) j
            where k.looked < v_looked_most and k.found < v_found_most)
        select max(k.looked) as looked, max(k.found) as found,
               array_agg(k.hash) filter (where k.tids is not null) as hashes,
               array_agg(k.most) filter (where k.tids is not null) as mosts,
               array_agg(cardinality(k.tids)) filter (where k.tids is not null) as runs,
               array(select unnest(j.tids) from walk j) as tids,
               min(k.first) filter (where k.tids is not null) as first,
               max(k.last) filter (where k.tids is not null) as last,
               sum(k.bytes) filter (where k.tids is not null) as bytes,
               coalesce(bool_or(k.bytes is null) filter (where k.tids is not null), false) as odd,
               case when bool_or(k.tokens < 1)
                   then greatest(1, ceil(min((1 - k.tokens) / v_rate) * 1000)) end as wait_ms
        into v from walk k;
        v_looked := v.looked;
        v_found := v.found;
        w.wait_ms := least(w.wait_ms, v.wait_ms);
        w.first := least(w.first, v.first);
        w.last := greatest(w.last, v.last);
        w.bytes := w.bytes + coalesce(v.bytes, 0);
        w.wide := w.wide or v.odd;
        if v.hashes is not null then
            w := deferred.__limited_keys_add(w, p_queue, p_n, p_known, v.hashes, v.mosts, v.tids,
                                             v.runs);
        end if;
    end loop;
    w.steps := w.steps + v_looked;
    return w;
end
$$;
grant execute on function deferred.__limited_keys to deferred_worker;
