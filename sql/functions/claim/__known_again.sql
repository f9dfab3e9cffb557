-- Jobs that were set aside because no worker had their function, and now one has: claims look at
-- them again. One step through the index for each queue that has such jobs. Rows that somebody has
-- locked are left to the next call.
create or replace function deferred.__known_again(p_fns text[]) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue text collate "C" := '';
    v_rows  bigint;
    v_all   bigint := 0;
begin
    loop
        select h.queue into v_queue from deferred.__deferred_hot h
        where h.unknown and h.limited and h.due_at is null and h.concurrency_key is null
          and h.queue > v_queue
        order by h.unknown, h.queue limit 1;
        exit when not found;
        with known as materialized (
            select h.id from deferred.__deferred_hot h
            where h.unknown and h.limited and h.due_at is null and h.concurrency_key is null
              and h.queue = v_queue and h.fn = any (p_fns)
            for update skip locked)
        update deferred.__deferred_hot h
        set unknown = false, limited = deferred.__is_limited(h.queue, h.fn, null),
            xid = pg_current_xact_id()
        from known k where h.id = any (array[k.id]);
        get diagnostics v_rows = row_count;
        v_all := v_all + v_rows;
        if v_rows > 0 then
            perform deferred.__wake(v_queue);
        end if;
    end loop;
    return v_all;
end
$$;
comment on function deferred.__known_again(text[]) is
    'makes jobs of these functions ready that no worker had; returns how many';
grant execute on function deferred.__known_again(text[]) to deferred_worker;
