-- Processes notes of ends for the jobs that wait: about p_most rows per call. Returns the number of
-- notes that it processed.
--
-- Jobs that wait for jobs.
--
-- A job that waits has three kinds of rows. Its hot row has due_at = infinity, which no claim and
-- no promotion reads. Its row in __deferred_wait counts the parents it waits for. It has an edge to
-- each parent. A parent with a waiting child is marked in its hot row (watched). A job that has
-- waited is marked otherwise (not watched), so its worker asks how its parents ended. Every
-- statement that deletes a watched row adds a note to __deferred_ended. Adding a note locks nothing
-- that others use, so workers that end jobs of one batch never wait for each other. An end is noted
-- if and only if it is committed.
--
-- This function processes the notes, some in each call, in a transaction of its own. One call takes
-- a note (SKIP LOCKED). An edge counts once, because its column `what` is filled under the lock of
-- the child's row in __deferred_wait. Those rows are locked here only, in the order of ids. Notes
-- that were put off, because a row was locked, come after all other notes. They have a quarter of
-- each call to themselves, so locked rows delay no other job. Each note put off is about one row.
--
-- Notes are in the order of (xid, n), and those that were put off in an order of their own. Like
-- the cursor of a lane (sql/functions/claim/__claim.sql), __deferred_ended_cursor stores how far
-- they have been processed. So dead notes that a snapshot keeps are not read again. Notes that are
-- visible in `done` and come before `at` have been processed. Notes of a transaction that was open
-- in `done` are looked up by its xid.
--
-- An event (deferred.send_event()) is a parent whose end somebody declares. The job has an edge to
-- a parent below 0, and a row in __deferred_awaited. The note of an event finds these rows by its
-- name, and deferred.__settle_events() decides each edge once, also when its time limit has passed.
--
-- Earlier notes do not count after deferred.flow_retry() has set the edges and counts of a flow
-- again. Each of its steps locks __deferred_ended_cursor in a mode that no application can take.
-- This function does not wait for that lock.
create or replace function deferred.__settle(most integer) returns integer
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
    v_put_off constant interval := '500 milliseconds';
    v_late    boolean;
    v_cursor   deferred.__deferred_ended_cursor;
    v_cursors  deferred.__deferred_ended_cursor[] := '{}';
    v_by      pg_snapshot[] := '{}';  -- taken before notes were looked for, in step
    w         deferred.__settling;
    v_locked  bigint[];
begin
    begin
        lock table deferred.__deferred_ended_cursor in row share mode nowait;
    exception when lock_not_available then
        return 0;  -- a flow is being retried
    end;
    w.budget := most;
    w.dealt := 0;
    foreach v_late in array array[false, true] loop
        v_cursor := deferred.__settle_cursor(v_late);
        v_cursors := v_cursors || v_cursor;
        v_by := v_by || deferred.__snapshot();
        if v_late then w.budget := greatest(w.budget, most / 4, 1); end if;
        w := deferred.__settle_notes(w, v_cursor, most);
    end loop;
    w := deferred.__settle_times(w, greatest(w.budget, most / 4, 1));
    if w.over is null and w.dealt = 0 then return 0; end if;

    perform from deferred.__deferred_wait x where x.id = any (w.children || w.links || w.backs)
    order by x.id for update;
    update deferred.__deferred_wait x set waits = 0, unmet = b.unmet, failure = b.failure
    from unnest(w.backs, w.unmet, w.failure) b(id, unmet, failure) where x.id = b.id;
    insert into deferred.__deferred_ended (id, what, upto)
    select o.flow, 'z', 0 from deferred.__deferred_flow_open o where o.waits_for = any (w.ended);
    if w.failed is not null then perform deferred.__settle_failed(w.failed); end if;
    if w.links is not null then w := deferred.__settle_links(w); end if;
    with told as materialized (
        select distinct on (t.child, t.parent) t.*
        from unnest(w.children, w.parents, w.whats) with ordinality t(child, parent, what, i)
        order by t.child, t.parent, t.i),
    edge as (
        update deferred.__deferred_edge e set what = t.what::"char"
        from told t where e.child = t.child and e.parent = t.parent and e.what is null
        returning e.child, e.parent, deferred.__edge_met(e.kind, e.what) as met,
                  e.kind = 'F' and e.what in ('f', 's') as failure),
    sum as (
        select e.child, count(*) filter (where e.met) as met,
               min(e.parent) filter (where not e.met) as unmet,
               min(e.parent) filter (where e.failure) as failure
        from edge e group by e.child)
    update deferred.__deferred_wait x
    set waits = x.waits - s.met, unmet = coalesce(x.unmet, s.unmet),
        failure = coalesce(nullif(x.failure, 0), s.failure, x.failure)
    from sum s where x.id = s.child;
    v_locked := deferred.__settle_ready(w.children || w.links || w.backs);
    insert into deferred.__deferred_ended (id, what, upto, late, not_before)
    select a.child, 'l', a.parent, true, clock_timestamp() + v_put_off
    from (select * from unnest(w.again, w.again_of)
          union select l, 0 from unnest(v_locked) l) a(child, parent);
    delete from deferred.__deferred_ended e where e.n = any (w.over);
    for i in 1 .. 2 loop
        perform deferred.__settle_advance(v_cursors[i], v_by[i]);
    end loop;
    return greatest(0, w.dealt - coalesce(cardinality(w.again), 0) - cardinality(v_locked));
end
$$;
grant execute on function deferred.__settle(integer) to deferred_worker;
