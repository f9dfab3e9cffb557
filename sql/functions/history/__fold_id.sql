-- The newest job, at or above an id, that was deferred before a time. Part of deferred.__fold() and
-- of searches by time. Ids are drawn in the order of time, except in long transactions.
create or replace function deferred.__fold_id(p_from bigint, p_before timestamptz) returns bigint
language plpgsql stable
as $$
declare
    v_lo bigint := p_from;
    v_hi bigint := (select coalesce(max(d.id), 0) from deferred.__deferred d) + 1;
    v    record;
begin
    while v_hi - v_lo > 1 loop
        -- At first the newest one: mostly it will do.
        select d.id, d.created_at into v from deferred.__deferred d
        where d.id <= case when v is null then v_hi - 1 else (v_lo + v_hi) / 2 end
        order by d.id desc limit 1;
        if v.id is null then
            return v_lo;
        elsif v.id > v_lo and v.created_at >= p_before then
            v_hi := v.id;
        else
            v_lo := case when v.id > v_lo then v.id else (v_lo + v_hi) / 2 end;
        end if;
    end loop;
    return v_lo;
end
$$;
grant execute on function deferred.__fold_id to deferred_worker, deferred_viewer;
