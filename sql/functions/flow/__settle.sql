-- Jobs that wait for jobs.
--
-- A job that waits has a hot row with due_at = infinity, which no claim and no promotion reads, a
-- row in __deferred_wait that counts what it waits for, and an edge to each parent. A parent that
-- is waited for is marked in its hot row (watched), and one that has waited otherwise (not
-- watched): its worker then asks how they ended. Whatever deletes a watched row adds a note to
-- __deferred_ended in the same statement: no lock on anything that others use, so workers that end
-- jobs of one batch never wait for each other, and an end is noted if and only if it is committed.
--
-- What follows from notes is done here, some of it a call, in a transaction that nobody's work is
-- in: a note is taken by one call (SKIP LOCKED) and goes with what it changed; one that many wait
-- for keeps its place (after). Edges count once, for their column
-- `what` is filled under the lock of the child's row in __deferred_wait. Those rows are locked here
-- only, in the order of ids. Hot rows are never waited for: a job whose row somebody has locked, in
-- a transaction prepared perhaps, is put off. What was put off comes after all other notes, and has
-- a quarter of each call to itself, so however many rows somebody keeps locked, nobody else is told
-- later for it. It is one row that is looked at again, the job's own or one parent's, however many
-- jobs it waits for.
--
-- Notes are in the order of (xid, n), and those that were put off in an order of their own: so is
-- when they are due. How far they have been dealt with is remembered (__deferred_told), as places
-- of lanes are (sql/functions/claim/__claim.sql), and what is dead before that, under a snapshot
-- that somebody holds, is not walked over: dealt with is what is visible in `done` and comes before
-- `at`. What a transaction added that was open in `done` is looked up by its xid.
--
-- A flow may want that the first of its jobs that fails has the rest cancelled
-- (__deferred_flow.on_failure): all its jobs are watched, and a note (c) of the flow itself, left
-- by whoever is the first to tell of a failure under the lock of the flow's row, is gone through as
-- one that many wait for.
--
-- A flow that was opened is gone through for a note (z) of the flow once it is closed:
-- sql/functions/flow/__flow_end.sql.
--
-- A flow that is retried has its edges and counts set anew, and what was noted of ends before is
-- void: while deferred.flow_retry() does that, a step at a time, nobody is told anything. Its lock
-- of a table is one that no application can take by itself, and is not waited for here.
--
-- A job deferred to wait for jobs that were there already locks none of them, or an open
-- transaction would hold up the worker that ends one: it leaves a note (l), and is linked here.
-- What has ended by then is found in the log.
create or replace function deferred.__settle(most integer) returns integer
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
declare
    v_put_off  constant interval := '500 milliseconds';
    v          record;
    v_place    deferred.__deferred_told;
    v_places   deferred.__deferred_told[] := '{}';
    v_by       pg_snapshot[] := '{}';   -- taken before notes were looked for, in step
    v_late     boolean;
    v_left     integer := most;
    v_some     bigint[];
    v_children bigint[] := '{}';
    v_parents  bigint[] := '{}';
    v_whats    text[] := '{}';
    v_links    bigint[] := '{}';
    v_only     bigint[] := '{}';  -- of each of v_links: as __deferred_ended.upto
    v_edges    record;
    v_again    bigint[] := '{}';
    v_again_of bigint[] := '{}';
    v_locked   bigint[];
    v_over     bigint[] := '{}';  -- notes that are done with
    v_seen     bigint[];
    v_free     bigint[];
    v_dealt    integer := 0;
    v_failed   bigint[] := '{}';  -- jobs that failed, as told for the first time
    v_stop     record;
    v_end      record;
    v_ended    bigint[] := '{}';  -- jobs of which an end is told
    v_backs    bigint[] := '{}';  -- callbacks of flows that have ended; in step:
    v_unmet    bigint[] := '{}';
    v_failure  bigint[] := '{}';
    v_put      integer := 0;
    v_queues   text[];
begin
    begin
        lock table deferred.__deferred_told in row share mode nowait;
    exception when lock_not_available then
        return 0;  -- a flow is being retried
    end;
    foreach v_late in array array[false, true] loop
        select t.* into v_place from deferred.__deferred_told t where t.late = v_late
        order by t.late desc, t.seq desc limit 1;
        v_by := v_by || pg_current_snapshot();
        if v_place.at > pg_snapshot_xmax(pg_current_snapshot()) then
            v_place.done := '1:1:';  -- of another cluster, whose dump was restored here
            v_place.at := '0';
        end if;
        v_places := v_places || v_place;
        if v_late then v_left := greatest(v_left, most / 4, 1); end if;
        for v in
            select e.n, e.id, e.what, e.after, e.upto
            from (select x as low, x as high from pg_snapshot_xip(v_place.done) x
                  where x < v_place.at
                  union all select v_place.at, '18446744073709551615'::xid8) r
            cross join lateral (
                select n.* from deferred.__deferred_ended n
                where n.late = v_late and n.xid between r.low and r.high
                  and n.not_before <= clock_timestamp()
                order by n.late, n.xid, n.n limit most for update skip locked) e
            limit most
        loop
            exit when v_left <= 0;
            v_dealt := v_dealt + 1;
            if v.what = 'l' then
                v_links := v_links || v.id;
                v_only := array_append(v_only, v.upto);
                v_over := v_over || v.n;
                v_left := v_left - 1;
                if v.upto is null then
                    v_left := v_left - (select count(*)
                                        from (select from deferred.__deferred_edge e
                                              where e.child = v.id limit most) e)::integer;
                end if;
            elsif v.what = 'c' then
                select s.* into v_stop from deferred.__flow_stop(v.id, v.after, v.upto,
                    greatest(v_left / 4, 1)) s;
                if v_stop.next is null then
                    v_over := v_over || v.n;
                else
                    update deferred.__deferred_ended e set upto = v_stop.next where e.n = v.n;
                end if;
                if v_stop.locked <> '{}' then
                    insert into deferred.__deferred_ended (id, what, after, upto, late, not_before)
                    select v.id, 'c', min(j) - 1, max(j) + 1, true, clock_timestamp() + v_put_off
                    from unnest(v_stop.locked) j;
                    v_put := v_put + v_late::integer;
                end if;
                -- to cancel one costs as much as to count some edges
                v_left := v_left - 1 - 4 * v_stop.looked;
            elsif v.what = 'z' then
                select e.* into v_end from deferred.__flow_end(v.id, greatest(v_left, 1)) e;
                if not v_end.again then
                    v_over := v_over || v.n;
                end if;
                if v_end.put_off then
                    insert into deferred.__deferred_ended (id, what, upto, late, not_before)
                    values (v.id, 'z', 0, true, clock_timestamp() + v_put_off);
                    v_put := v_put + v_late::integer;
                end if;
                v_backs := v_backs || v_end.callbacks;
                v_unmet := v_unmet || v_end.unmet;
                v_failure := v_failure || v_end.failure;
                v_left := v_left - 1 - v_end.looked;
            else
                v_ended := v_ended || v.id;
                if v.what = 'f' and v.after = 0 then v_failed := v_failed || v.id; end if;
                v_some := array(select e.child from deferred.__deferred_edge e
                                where e.parent = v.id and e.child > v.after and e.child <= v.upto
                                order by e.child limit v_left);
                if cardinality(v_some) = v_left then
                    update deferred.__deferred_ended e set after = v_some[v_left] where e.n = v.n;
                else
                    v_over := v_over || v.n;
                end if;
                v_children := v_children || v_some;
                v_parents := v_parents || array_fill(v.id, array[cardinality(v_some)]);
                v_whats := v_whats || array_fill(v.what::text, array[cardinality(v_some)]);
                v_left := v_left - 1 - cardinality(v_some);
            end if;
        end loop;
    end loop;
    if v_dealt = 0 then return 0; end if;

    perform from deferred.__deferred_wait w where w.id = any (v_children || v_links || v_backs)
    order by w.id for update;
    update deferred.__deferred_wait w set waits = 0, unmet = b.unmet, failure = b.failure
    from unnest(v_backs, v_unmet, v_failure) b(id, unmet, failure) where w.id = b.id;
    insert into deferred.__deferred_ended (id, what, upto) select o.flow, 'z', 0
    from deferred.__deferred_flow_open o where o.waits_for = any (v_ended);

    if v_failed <> '{}' then
        with flow as materialized (
            select f.id from deferred.__deferred_flow f
            where f.on_failure = 'cancel' and f.failed is null
              and f.id = any (array(select distinct m.flow from deferred.__deferred_member m
                                    where m.job = any (v_failed) and m.part is distinct from 't'))
            order by f.id for update),
        failed as (
            update deferred.__deferred_flow f
            set failed = (select min(m.job) from deferred.__deferred_member m
                          where m.job = any (v_failed) and m.flow = f.id
                            and m.part is distinct from 't')
            from flow x where f.id = x.id and f.failed is null
            returning f.id)
        insert into deferred.__deferred_ended (id, what, upto) select f.id, 'c', 9223372036854775807
        from failed f;
    end if;

    if v_links <> '{}' then
        select coalesce(array_agg(e.child), '{}') as child,
               coalesce(array_agg(e.parent), '{}') as parent into v_edges
        from unnest(v_links, v_only) l(child, parent)
        join deferred.__deferred_wait w on w.id = l.child and w.waits > 0 and w.unmet is null
        cross join lateral (
            select x.child, x.parent from deferred.__deferred_edge x
            where l.parent is null and x.child = l.child and x.what is null
            union all
            select x.child, x.parent from deferred.__deferred_edge x
            where x.child = l.child and x.parent = l.parent and x.what is null) e;
        v_some := array(select distinct p from unnest(v_edges.parent) p);
        v_free := array(select h.id from deferred.__deferred_hot h where h.id = any (v_some)
                        order by h.id for update skip locked);
        update deferred.__deferred_hot h set watched = true
        where h.id = any (v_free) and h.watched is not true;
        -- By now a parent is marked, or locked by somebody, or it is gone and its end is in the
        -- log.
        for v in
            select e.child, e.parent, h.id is not null as hot, o.what
            from unnest(v_edges.child, v_edges.parent) e(child, parent)
            left join deferred.__deferred_hot h on h.id = e.parent
            cross join lateral (select case when h.id is null then coalesce(deferred.__ended_as(e.parent)::text, 's') end as what) o
            where e.parent <> all (v_free)
        loop
            if v.what is not null then
                v_children := v_children || v.child;
                v_parents := v_parents || v.parent;
                v_whats := v_whats || v.what;
            elsif v.hot then
                v_again := v_again || v.child;
                v_again_of := v_again_of || v.parent;
            end if;
        end loop;
    end if;

    with told as materialized (
        select distinct on (t.child, t.parent) t.*
        from unnest(v_children, v_parents, v_whats) with ordinality t(child, parent, what, i)
        order by t.child, t.parent, t.i),
    edge as (
        update deferred.__deferred_edge e set what = t.what::"char"
        from told t where e.child = t.child and e.parent = t.parent and e.what is null
        returning e.child, e.parent, deferred.__edge_met(e.kind, e.what) as met, e.kind = 'F'
            and e.what in ('f', 's') as failure),
    sum as (
        select e.child, count(*) filter (where e.met) as met,
               min(e.parent) filter (where not e.met) as unmet,
               min(e.parent) filter (where e.failure) as failure
        from edge e group by e.child)
    update deferred.__deferred_wait w
    set waits = w.waits - s.met, unmet = coalesce(w.unmet, s.unmet),
        failure = coalesce(nullif(w.failure, 0), s.failure, w.failure)
    from sum s where w.id = s.child;

    v_seen := array(select w.id from deferred.__deferred_wait w
                    where w.id = any (v_children || v_links || v_backs)
                      and (w.waits <= 0 or w.unmet is not null));
    v_free := array(select h.id from deferred.__deferred_hot h where h.id = any (v_seen)
                    order by h.id for update skip locked);
    v_locked := array(select h.id from deferred.__deferred_hot h
                      where h.id = any (v_seen) and h.id <> all (v_free));
    -- One that somebody retried by hand waits no more.
    with ready as (
        update deferred.__deferred_hot h
        set due_at = case when w.due_at > clock_timestamp() then w.due_at end,
            visible_at = greatest(clock_timestamp(), w.due_at),
            xid = pg_current_xact_id(), watched = coalesce(h.watched, false)
        from deferred.__deferred_wait w
        where h.id = any (v_free) and w.id = h.id and w.unmet is null
          and w.failure is distinct from 0 and h.due_at = 'infinity'
        returning h.queue, h.due_at),
    gone as (
        delete from deferred.__deferred_hot h
        using (select w.id, w.unmet, case when w.unmet is not null
                                              then coalesce(e.what = 'n'
                                                  or (e.kind = 'f' and e.what = 'o'),
                                                  false) end as spare
               from deferred.__deferred_wait w
               left join deferred.__deferred_edge e on e.child = w.id and e.parent = w.unmet
               where w.id = any (v_free) and (w.unmet is not null or w.failure = 0)) w
        where h.id = w.id and h.due_at = 'infinity'
        returning h.id, w.unmet,
                  case when h.watched then deferred.__note_end(h.id, 0,
                      case when w.spare is false then 'skipped' else 'not needed' end)
                          else 0 end as attempt,
                  w.spare),
    log as (
        insert into deferred.__deferred_log (job_id, attempt, outcome, final, error)
        select g.id, g.attempt, 'cancelled', true,
               case when g.unmet is null then 'skipped: not needed, for no job of its flow failed'
                    when g.spare then format('skipped: not needed, for job %s did not fail',
                                             g.unmet)
                    else format('skipped: job %s, for which it waited, did not end as it must have',
                                g.unmet) end from gone g)
    select array_agg(distinct r.queue) into v_queues from ready r where r.due_at is null;
    delete from deferred.__deferred_wait w where w.id = any (v_seen) and w.id <> all (v_locked);

    insert into deferred.__deferred_ended (id, what, upto, late, not_before)
    select a.child, 'l', a.parent, true, clock_timestamp() + v_put_off
    from (select * from unnest(v_again, v_again_of) union select l, 0
          from unnest(v_locked) l) a(child, parent);
    delete from deferred.__deferred_ended e where e.n = any (v_over);
    for v_i in 1 .. cardinality(v_places) loop
        perform deferred.__settled(v_places[v_i], v_by[v_i]);
    end loop;
    perform deferred.__wake(q) from unnest(v_queues) q;
    return greatest(0, v_dealt - cardinality(v_again) - cardinality(v_locked) - v_put);
end
$$;
comment on function deferred.__settle(integer) is
    'tells those who wait of ends that were noted: about so many rows a call; returns how many '
    'notes it dealt with';
grant execute on function deferred.__settle(integer) to deferred_worker;
