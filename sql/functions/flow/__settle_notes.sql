-- Part of deferred.__settle(): takes notes, and says what is to be done for them.
--
-- Takes notes at and after the cursor, and adds what follows from them to w. A note is deleted with
-- the rows that it changes. A note with many children is replaced by one whose column `after` says
-- how far it is done. That one comes behind all others, so they do not wait for the last child.
create or replace function deferred.__settle_notes(w deferred.__settling,
    p_cursor deferred.__deferred_ended_cursor, p_most integer) returns deferred.__settling
language plpgsql
as $$
#variable_conflict use_variable
declare
    n          deferred.__deferred_ended;
    v_children bigint[];
    v_parents  bigint[];
    v_whats    text[];
    v_links    bigint[];
    v_links_of bigint[];
    v_ended    bigint[];
    v_failed   bigint[];
    v_over     bigint[];
    v_left     integer := w.budget;
    v_dealt    integer := 0;
    v_some     record;
    v_stop     record;
    v_end      record;
begin
    for n in
        select e.*
        from (select x as low, x as high from pg_snapshot_xip(p_cursor.done) x where x < p_cursor.at
              union all select p_cursor.at, '18446744073709551615'::xid8) r
        cross join lateral (
            select x.* from deferred.__deferred_ended x
            where x.late = p_cursor.late and x.xid between r.low and r.high
              and x.not_before <= clock_timestamp()
            order by x.late, x.xid, x.n limit p_most for update skip locked) e
        limit p_most
    loop
        exit when v_left <= 0;
        v_dealt := v_dealt + 1;
        v_left := v_left - 1;
        if n.what = 'l' then
            v_links := v_links || n.id;
            v_links_of := array_append(v_links_of, n.upto);
            v_over := v_over || n.n;
            if n.upto is null then
                v_left := v_left - (select count(*) from (
                    select from deferred.__deferred_edge e where e.child = n.id limit p_most) x);
            end if;
        elsif n.what = 'c' then
            select s.* into v_stop from deferred.__flow_stop(n, greatest((v_left + 1) / 4, 1)) s;
            if v_stop.done then v_over := v_over || n.n; end if;
            if n.late and v_stop.put_off then v_dealt := v_dealt - 1; end if;
            -- to cancel one costs as much as to count some edges
            v_left := v_left - 4 * v_stop.looked;
        elsif n.what = 'z' then
            select e.* into v_end from deferred.__flow_end(n.id, greatest(v_left + 1, 1)) e;
            if not v_end.again then v_over := v_over || n.n; end if;
            if v_end.put_off then
                insert into deferred.__deferred_ended (id, what, upto, late, not_before)
                values (n.id, 'z', 0, true, clock_timestamp() + interval '500 milliseconds');
                if n.late then v_dealt := v_dealt - 1; end if;
            end if;
            w.backs := w.backs || v_end.callbacks;
            w.unmet := w.unmet || v_end.unmet;
            w.failure := w.failure || v_end.failure;
            v_left := v_left - v_end.looked;
        else
            select s.* into v_some from deferred.__settle_slice(n, v_left + 1) s;
            if v_some.jobs = v_left + 1 then
                insert into deferred.__deferred_ended (id, what, after, upto)
                values (n.id, n.what, v_some.children[v_some.jobs], n.upto);
            end if;
            v_over := v_over || n.n;
            if n.what = 'e' then
                v_links := v_links || v_some.children;
                v_links_of := v_links_of || v_some.parents;
            else
                v_ended := v_ended || n.id;
                if n.what = 'f' and n.after = 0 then v_failed := v_failed || n.id; end if;
                v_children := v_children || v_some.children;
                v_parents := v_parents || array_fill(n.id, array[v_some.jobs]);
                v_whats := v_whats || array_fill(n.what::text, array[v_some.jobs]);
            end if;
            v_left := v_left - v_some.jobs;
        end if;
    end loop;
    w.budget := v_left;
    w.dealt := w.dealt + v_dealt;
    w.children := w.children || v_children;
    w.parents := w.parents || v_parents;
    w.whats := w.whats || v_whats;
    w.links := w.links || v_links;
    w.links_of := w.links_of || v_links_of;
    w.ended := w.ended || v_ended;
    w.failed := w.failed || v_failed;
    w.over := w.over || v_over;
    return w;
end
$$;
