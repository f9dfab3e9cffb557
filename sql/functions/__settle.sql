-- Jobs that wait for jobs.
--
-- A job that waits has a hot row with due_at = infinity, which no claim and no promotion reads, a row in __deferred_wait that counts
-- what it waits for, and an edge to each parent. A parent that is waited for is marked in its hot row (watched). Whatever deletes a watched
-- row adds a note to __deferred_ended in the same statement: no lock on anything that others use, so workers that end jobs of one
-- batch never wait for each other, and an end is noted if and only if it is committed.
--
-- What follows from notes is done here, some of it a call, in a transaction that nobody's work is in: a note is taken by one call
-- (SKIP LOCKED) and goes with what it changed; one that many wait for keeps its place (after). Edges count once, for their column
-- `what` is filled under the lock of the child's row in __deferred_wait. Those rows are locked here only, in the order of ids. Hot rows are
-- never waited for: a job whose row somebody has locked, in a transaction prepared perhaps, is looked at again with a later call.
--
-- A job deferred to wait for jobs that were there already locks none of them, or an open transaction would hold up the worker that
-- ends one: it leaves a note (l), and is linked here. What has ended by then is found in the log.
create or replace function deferred.__settle(most integer) returns integer
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
declare
    v          record;
    v_left     integer := most;
    v_some     bigint[];
    v_children bigint[] := '{}';
    v_parents  bigint[] := '{}';
    v_whats    text[] := '{}';
    v_links    bigint[] := '{}';
    v_again    bigint[] := '{}';
    v_over     bigint[] := '{}';  -- notes that are done with
    v_seen     bigint[];
    v_free     bigint[];
    v_dealt    integer := 0;
    v_queues   text[];
begin
    for v in select e.n, e.id, e.what, e.after from deferred.__deferred_ended e order by e.n limit most for update skip locked loop
        exit when v_left <= 0;
        v_dealt := v_dealt + 1;
        if v.what = 'l' then
            v_links := v_links || v.id;
            v_over := v_over || v.n;
            v_left := v_left - 1 - (select count(*) from deferred.__deferred_edge e where e.child = v.id)::integer;
        else
            v_some := array(select e.child from deferred.__deferred_edge e
                            where e.parent = v.id and e.child > v.after order by e.child limit v_left);
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
    if v_dealt = 0 then return 0; end if;

    perform from deferred.__deferred_wait w where w.id = any (v_children || v_links) order by w.id for update;

    if v_links <> '{}' then
        v_some := array(select distinct e.parent from deferred.__deferred_edge e where e.child = any (v_links) and e.what is null);
        v_free := array(select h.id from deferred.__deferred_hot h where h.id = any (v_some) order by h.id for update skip locked);
        update deferred.__deferred_hot h set watched = true where h.id = any (v_free) and h.watched is not true;
        -- By now a parent is marked, or locked by somebody, or it is gone and its end is in the log.
        for v in
            select e.child, e.parent, h.id is not null as hot, o.what
            from deferred.__deferred_edge e
            left join deferred.__deferred_hot h on h.id = e.parent
            cross join lateral (select case
                when h.id is null then coalesce((
                    select case when l.outcome = 'ok' then 'o' when l.attempt = 0 and l.error like 'skipped: %' then 's' else 'f' end
                    from deferred.__deferred_log l where l.job_id = e.parent and l.final order by l.finished_at desc, l.attempt desc limit 1), 's')
                end as what) o
            where e.child = any (v_links) and e.what is null and e.parent <> all (v_free)
        loop
            if v.what is not null then
                v_children := v_children || v.child;
                v_parents := v_parents || v.parent;
                v_whats := v_whats || v.what;
            elsif v.hot then
                v_again := v_again || v.child;
            end if;
        end loop;
    end if;

    with told as materialized (
        select distinct on (t.child, t.parent) t.* from unnest(v_children, v_parents, v_whats) t(child, parent, what)),
    edge as (
        update deferred.__deferred_edge e set what = t.what::"char"
        from told t where e.child = t.child and e.parent = t.parent and e.what is null
        returning e.child, e.parent, e.what, e.kind = 'e' or e.kind = e.what as met),
    sum as (
        select e.child, count(*) filter (where e.met) as met, min(e.parent) filter (where not e.met) as unmet
        from edge e group by e.child)
    update deferred.__deferred_wait w set waits = w.waits - s.met, unmet = coalesce(w.unmet, s.unmet)
    from sum s where w.id = s.child;

    v_seen := array(select w.id from deferred.__deferred_wait w
                    where w.id = any (v_children || v_links) and (w.waits <= 0 or w.unmet is not null));
    v_free := array(select h.id from deferred.__deferred_hot h where h.id = any (v_seen) order by h.id for update skip locked);
    v_again := v_again || array(select h.id from deferred.__deferred_hot h where h.id = any (v_seen) and h.id <> all (v_free));
    -- One that somebody retried by hand waits no more.
    with ready as (
        update deferred.__deferred_hot h
        set due_at = case when w.due_at > clock_timestamp() then w.due_at end, visible_at = greatest(clock_timestamp(), w.due_at),
            xid = pg_current_xact_id()
        from deferred.__deferred_wait w
        where h.id = any (v_free) and w.id = h.id and w.unmet is null and h.due_at = 'infinity'
        returning h.queue, h.due_at),
    gone as (
        delete from deferred.__deferred_hot h using deferred.__deferred_wait w
        where h.id = any (v_free) and w.id = h.id and w.unmet is not null and h.due_at = 'infinity'
        returning h.id, w.unmet, case when h.watched then deferred.__note_end(h.id, 0, 'skipped') else 0 end as attempt),
    log as (
        insert into deferred.__deferred_log (job_id, attempt, outcome, final, error)
        select g.id, g.attempt, 'cancelled', true,
               format('skipped: job %s, for which it waited, did not end as it must have', g.unmet) from gone g)
    select array_agg(distinct r.queue) into v_queues from ready r where r.due_at is null;
    delete from deferred.__deferred_wait w where w.id = any (v_seen) and w.id <> all (v_again);

    insert into deferred.__deferred_ended (id, what) select distinct a, 'l'::"char" from unnest(v_again) a;
    delete from deferred.__deferred_ended e where e.n = any (v_over);
    perform deferred.__wake(q) from unnest(v_queues) q;
    return greatest(0, v_dealt - cardinality(v_again));
end
$$;
comment on function deferred.__settle(integer) is 'tells those who wait of ends that were noted: about so many rows a call; returns how many notes it dealt with';
grant execute on function deferred.__settle(integer) to deferred_worker;
