-- Calls deferred.update() for the next `batch` jobs that match the filter, see
-- deferred.__matching(). If `dry` is true, the changes are checked, and the jobs only counted.
-- The count `refused` is that of jobs that cannot be changed, and `why` the reason of the first.
create or replace function deferred.__update_some(state text, filter json, changes json, at json,
                                                  dry boolean, batch integer,
    out done bigint, out refused bigint, out why text, out after json)
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_changes jsonb := deferred.__update_check(changes);
    v_params  json := changes->'params';
    v_ids     bigint[];
    v_id      bigint;
    v_done    bigint[] := '{}';
    h         deferred.__deferred_hot;
begin
    select m.ids, m.after into v_ids, after
    from deferred.__matching(case when state is null then '{ready,delayed,waiting}'
                                  else array[state] end, filter, at, batch) m;
    done := 0;
    refused := 0;
    if dry then
        done := cardinality(v_ids);
        return;
    end if;
    -- Mostly none is refused, and one subtransaction is enough.
    begin
        for h in select * from deferred.__update_lock_some(v_ids) loop
            perform deferred.__update_locked(h, v_changes, v_params);
            v_done := v_done || h.id;
        end loop;
    exception when unique_violation or insufficient_privilege or configuration_limit_exceeded
        or program_limit_exceeded then
        v_done := '{}';
    end;
    done := cardinality(v_done);
    foreach v_id in array v_ids loop
        continue when v_id = any (v_done);
        begin
            if deferred.__update(v_id, v_changes, v_params) then done := done + 1; end if;
        exception when object_in_use or unique_violation or insufficient_privilege
            or configuration_limit_exceeded or program_limit_exceeded then
            refused := refused + 1;
            why := coalesce(why, sqlerrm);
        end;
    end loop;
end
$$;
comment on function deferred.__update_some is
    'part of "deferred update": changes some of the jobs that fit a filter';
grant execute on function deferred.__update_some to deferred_producer;
