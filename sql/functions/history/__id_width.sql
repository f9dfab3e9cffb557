-- The number of ids of the next partition of jobs: about those of a day. Each session opens all
-- partitions, so months of jobs should not have more partitions than days. The least is 10 million,
-- so that a quiet database has few partitions. The most is 1,000 million, because a partition is
-- deleted as a whole. The rate is that of the jobs of the last day, or of the oldest day that is
-- still stored.
create or replace function deferred.__id_width(last bigint, jobs bigint) returns bigint
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    -- those that come at once are not of every day, but ought not to need a hundred
    v_rate  double precision := jobs / 16.0;
    v_first record;
    p       record;
begin
    for p in select x.first::bigint as first, x.past::bigint as past
        from deferred.__partitions('deferred.__deferred') x where x.first::bigint <= last
        order by 1 desc loop
        select d.id, clock_timestamp() - d.created_at as age into v_first from deferred.__deferred d
        where d.id >= p.first and d.id < p.past order by d.id limit 1;
        continue when not found;
        v_rate := greatest(jobs / 16.0,
                           (last - v_first.id) / greatest(extract(epoch from v_first.age) / 86400,
                               1));
        exit when v_first.age > interval '1 day';
    end loop;
    return (select coalesce(min(w), 1000000000)
            from unnest('{10000000,20000000,50000000,100000000,200000000,500000000}'::bigint[]) w
            where w >= v_rate);
end
$$;
