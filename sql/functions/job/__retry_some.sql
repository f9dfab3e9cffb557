-- Calls deferred.retry() for the next `batch` jobs that match the filter, see
-- deferred.__matching(). If `dry` is true, the jobs are only counted. If the member from_start of
-- the filter is true, their steps are deleted.
-- The count `refused` is that of jobs that cannot be retried, and `why` the reason of the first.
create or replace function deferred.__retry_some(state text, filter json, at json, dry boolean,
                                                 batch integer,
    out done bigint, out refused bigint, out why text, out after json)
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_ids bigint[];
    v_id  bigint;
    v_from_start boolean := (filter->>'from_start')::boolean;
begin
    select m.ids, m.after into v_ids, after
    from deferred.__matching(case when state is null then '{dead,delayed}' else array[state] end,
                             filter, at, batch) m;
    done := 0;
    refused := 0;
    foreach v_id in array v_ids loop
        begin
            if dry or deferred.retry(v_id, v_from_start) then done := done + 1; end if;
        exception when object_in_use or object_not_in_prerequisite_state or unique_violation
            or insufficient_privilege then
            refused := refused + 1;
            why := coalesce(why, sqlerrm);
        end;
    end loop;
end
$$;
comment on function deferred.__retry_some is
    'part of "deferred retry": retries some of the jobs that fit a filter';
grant execute on function deferred.__retry_some to deferred_worker;
