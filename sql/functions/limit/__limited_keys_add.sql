-- Adds keys of a queue that were found, and their first jobs, to what a claim under limits looks
-- at. The element of p_mosts says how many jobs of a key may run at once.
create or replace function deferred.__limited_keys_add(
    w deferred.__limited, p_queue text, p_n integer, p_known text[], p_hashes bigint[],
    p_tids tid[], p_mosts integer[])
returns deferred.__limited
language plpgsql
as $$
declare
    v_base constant integer := cardinality(w.key_hashes);
    v_ats  integer[] := array(select generate_series(v_base + 1, v_base + cardinality(p_hashes)));
begin
    if 1 < any (p_mosts) then
        w.wide := true;
        select array_agg(coalesce(j.tid, k.tid)), array_agg(k.at) into p_tids, v_ats
        from unnest(p_hashes, p_tids, p_mosts, v_ats) k(hash, tid, most, at)
        left join lateral deferred.__limited_keys_wide(
            p_queue, k.hash, case when k.most > 1 then least(p_n, k.most) else 0 end,
            p_known) j on true;
    end if;
    w.key_hashes := w.key_hashes || p_hashes::text[];
    w.key_queues := w.key_queues || array_fill(p_queue, array[coalesce(cardinality(p_hashes), 0)]);
    w.key_tids := w.key_tids || p_tids;
    w.key_at := w.key_at || v_ats;
    return w;
end
$$;
grant execute on function deferred.__limited_keys_add to deferred_worker;
