-- Adds the jobs of a queue whose key lets them run next to what a claim under limits looks at. The
-- search begins at a random key. Of each key the first job counts, or the first jobs if the key
-- allows more than one. A job that was deferred with a delay has not arrived yet. One that waits
-- for its next attempt has.
create or replace function deferred.__limited_keys(
    w deferred.__limited, p_queue text, p_n integer, p_known text[], p_seed bigint)
returns deferred.__limited
language plpgsql
as $$
declare
    v_looked_most constant integer := 300;             -- keys looked at in a queue, and
    v_found_most  constant integer := least(p_n, 100); -- jobs found: then the search ends
    v_pivot       constant bigint := hashint8extended(p_seed, 0);
    v_key         bigint := v_pivot;
    v_looked      integer := 0;
    v_jobs        bigint[] := '{}';
    v_hashes      text[] := '{}';
    v_fns         text[] := w.key_fns;
    v_id          bigint;   -- the first job of a key
    v_fn          text;
    v_concurrency integer;
    v_hash        bigint;
    v_free        boolean;
begin
    for lap in 0..1 loop
        while v_looked < v_looked_most and cardinality(v_jobs) < v_found_most loop
            select x.id, x.fn, x.concurrency, hashtextextended(x.concurrency_key, 0),
                   x.due_at is null and x.receipt is null
                       and (p_known is null or x.fn = any (p_known))
            into v_id, v_fn, v_concurrency, v_hash, v_free
            from deferred.__deferred_hot x
            where x.queue = p_queue and x.concurrency_key is not null
              and hashtextextended(x.concurrency_key, 0) >= v_key
              and x.fn is not null and (x.due_at is null or x.attempt > coalesce(x.attempt_base, 0))
            order by x.queue, hashtextextended(x.concurrency_key, 0), x.id limit 1;
            exit when not found or (lap = 1 and v_hash >= v_pivot);
            v_looked := v_looked + 1;
            if v_concurrency > 1 then
                select v_jobs || array_agg(y.id), v_hashes || array_agg(v_hash::text),
                       v_fns || array_agg(y.fn::text)
                into v_jobs, v_hashes, v_fns
                from (select x.id, x.fn from deferred.__deferred_hot x
                      where x.queue = p_queue and x.concurrency_key is not null
                        and hashtextextended(x.concurrency_key, 0) = v_hash and x.concurrency > 1
                        and x.due_at is null and x.receipt is null and x.fn is not null
                        and (p_known is null or x.fn = any (p_known))
                      order by x.queue, hashtextextended(x.concurrency_key, 0), x.id
                      limit least(p_n, v_concurrency)) y;
            elsif v_free then
                v_jobs := v_jobs || v_id;
                v_hashes := v_hashes || v_hash::text;
                if v_fn <> all (v_fns) then
                    v_fns := v_fns || v_fn;
                end if;
            end if;
            exit when v_hash = 9223372036854775807;
            v_key := v_hash + 1;
        end loop;
        v_key := -9223372036854775808;
    end loop;
    w.steps := w.steps + v_looked;
    w.key_jobs := w.key_jobs || v_jobs;
    w.key_hashes := w.key_hashes || v_hashes;
    w.key_queues := w.key_queues || array_fill(p_queue, array[cardinality(v_jobs)]);
    w.key_fns := v_fns;
    return w;
end
$$;
grant execute on function deferred.__limited_keys to deferred_worker;
