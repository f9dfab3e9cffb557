-- Returns the jobs that a claim took from a window, with their calls. Where their ids lie close
-- together, one walk finds all calls but the first. A call that the walk does not find is looked up
-- by its id. So a job whose call is gone is handed out too.
create or replace function deferred.__claim_rows(
    w deferred.__window, p_of deferred.__deferred_queue)
returns setof deferred.__claimed
language plpgsql
as $$
declare
    v_near  boolean;    -- one walk finds all calls but the first
    v_picks integer[];  -- jobs whose calls are found one by one
    v_read  integer;    -- calls that the walk has found
begin
    v_near := w.receipts is null and cardinality(w.picks) = w.found and w.found >= 16
        and w.last - w.first < 4 * w.found;
    v_picks := case when v_near then '{1}' else w.picks end;
    loop
        return query
        select c.* from deferred.__claim_calls(
            w, p_of, v_picks, w.ids, w.tids, w.attempts, w.attempt_bases,
            w.ready_since, w.flags, w.receipts, w.first, w.last) c;
        exit when not v_near;
        return query
        select c.* from deferred.__claim_calls_near(
            p_of, w.ids, w.tids, w.attempts, w.attempt_bases, w.ready_since, w.flags,
            w.first, w.last) c;
        get diagnostics v_read = row_count;
        exit when v_read = w.found - 1;
        v_near := false;
        v_picks := array(
            select i from generate_series(2, w.found) i
            where not exists (
                select from deferred.__call(w.ids[i], w.first, w.last)));
    end loop;
end
$$;
grant execute on function deferred.__claim_rows to deferred_worker;
