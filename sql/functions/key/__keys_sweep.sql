-- Part of deferred.maintain(), once a minute. Removes rows of __deferred_key whose keys are free.
-- If the job of a row has ended, stores how long its key is held, before the log is purged. A slice
-- has p_pages pages. It goes on while at least a half of the rows of a slice were free, for
-- at most 100 slices. Returns the number of rows removed.
--
-- A row stays while a job that may have given up its key has it in its hot row. Without any row
-- deferred.__enqueue_key() would take that job for the holder of the key.
create or replace function deferred.__keys_sweep(p_pages integer) returns bigint
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    v_pages  bigint := pg_relation_size('deferred.__deferred_key'::regclass)
                       / current_setting('block_size')::integer;
    v_page   bigint;
    v_locked tid[];
    v_rows   bigint;
    v_all    bigint := 0;
begin
    if v_pages = 0 then return 0; end if;
    update deferred.__deferred_upkeep u set keys_at = now()
    where u.ctid = any (array(select x.ctid from deferred.__deferred_upkeep x
                              where x.keys_at not between now() - interval '1 minute' and now()
                              for update skip locked))
    returning u.keys_page into v_page;
    if not found then return 0; end if;
    for v_slice in 1 .. least(100, (v_pages + p_pages - 1) / p_pages) loop
        v_page := case when v_page < v_pages then v_page else 0 end;
        -- Locked first: what became of its job is then asked with a later snapshot.
        v_locked := array(select k.ctid from deferred.__deferred_key k
                          where k.ctid >= format('(%s,0)', v_page)::tid
                            and k.ctid < format('(%s,0)', v_page + p_pages)::tid
                          for update skip locked);
        delete from deferred.__deferred_key k
        where k.ctid = any (v_locked) and deferred.__key_held(k) <= clock_timestamp()
          and not exists (select from deferred.__deferred_hot h
                          where h.id = k.job_id or (h.queue = k.queue and h.key = k.key));
        get diagnostics v_rows = row_count;
        update deferred.__deferred_key k set until = deferred.__key_held(k)
        where k.ctid = any (v_locked) and k.until is null and k.key_until_ms > 0
          and not exists (select from deferred.__deferred_hot h where h.id = k.job_id);
        v_all := v_all + v_rows;
        v_page := v_page + p_pages;
        exit when v_rows * 2 < cardinality(v_locked);
    end loop;
    update deferred.__deferred_upkeep u set keys_page = v_page;
    return v_all;
end
$$;
comment on function deferred.__keys_sweep is
    'part of deferred.maintain(): removes rows of keys that nobody holds';
