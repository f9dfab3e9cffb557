-- Adds keys of a queue that were found, and jobs of them, to what a claim under limits looks at. Of
-- each key, p_mosts says how many jobs may run at once, and p_runs how many of p_tids are its jobs.
-- If a key allows more than one, all others give their first job only.
create or replace function deferred.__limited_keys_add(
    w deferred.__limited, p_queue text, p_n integer, p_known text[], p_hashes bigint[],
    p_mosts integer[], p_tids tid[], p_runs integer[])
returns deferred.__limited
language plpgsql
as $$
declare
    v_base   constant integer := cardinality(w.key_hashes);
    v_ats    integer[];
    v_places integer[];
begin
    select array_agg(k.at), array_agg(j.place) into v_ats, v_places
    from unnest(p_runs) with ordinality k(run, at)
    cross join lateral generate_series(1, k.run) j(place);
    if 1 < any (p_mosts) then
        w.wide := true;
        select array_agg(coalesce(j.tid, k.tid)), array_agg(k.at), array_agg(1)
        into p_tids, v_ats, v_places
        from unnest(p_tids, v_ats, v_places) k(tid, at, place)
        left join lateral deferred.__limited_keys_wide(
            p_queue, p_hashes[k.at],
            case when p_mosts[k.at] > 1 then least(p_n, p_mosts[k.at]) else 0 end,
            p_known) j on true
        where k.place = 1;
    end if;
    w.key_hashes := w.key_hashes || p_hashes::text[];
    w.key_queues := w.key_queues || array_fill(p_queue, array[cardinality(p_hashes)]);
    w.key_tids := w.key_tids || p_tids;
    w.key_at := w.key_at || array(select v_base + u.at from unnest(v_ats) u(at));
    w.key_places := w.key_places || v_places;
    return w;
end
$$;
grant execute on function deferred.__limited_keys_add to deferred_worker;
