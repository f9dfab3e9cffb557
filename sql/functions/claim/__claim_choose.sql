-- Chooses from a window: which jobs are taken, and which are left for the next claim. The cursor
-- moves behind all of them.
--
-- Fewer jobs than p_window are drawn at random. The others are left, each with its xid, and come
-- first next time. Up to 1,000 jobs whose row somebody has locked are left too, for example by a
-- cancel that is not yet committed. The function __repair() finds the others. Jobs beyond the
-- budget for params are left, except the first job of a claim. So are jobs that need a lease of
-- their own, beyond what the worker can begin at once.
create or replace function deferred.__claim_choose(
    w deferred.__window, p_window integer, p_seed bigint, p_max_bytes bigint)
returns deferred.__window language plpgsql as $$
declare
    v_most   integer := greatest(w.want, p_window);
    v_end    integer := w.found;  -- the jobs behind it are left as if they had not been read
    v_free   bigint[];            -- touched, and not locked
    v_locked bigint[] := '{}';    -- to be put apart, and locked
begin
    w.moved := true;
    if w.flagged & 1 <> 0 then
        -- Of the row that is locked once more: before 15.15 a server may lock a later version,
        -- which was made ready since.
        v_free := array(select h.id from deferred.__deferred_hot h
                        where h.ctid = any (array(select u.tid from unnest(w.tids, w.flags)
                                                  u(tid, flags) where u.flags & 1 <> 0))
                          and pg_visible_in_snapshot(h.xid, w.cur)
                        for update skip locked);
    end if;
    if w.flagged & (2 | 4) <> 0 then
        v_locked := (select deferred.__claim_aside(
                         w.queue, array_agg(u.id) filter (where u.flags & 2 <> 0),
                         array_agg(u.id) filter (where u.flags & 4 <> 0))
                     from unnest(w.ids, w.flags) u(id, flags)
                     where u.flags & (2 | 4) <> 0
                       and (u.flags & 1 = 0 or u.id = any (v_free)));
    end if;
    if w.found > v_most then
        -- Many were put aside, or are locked. Then the window ends with as many good ones as it
        -- would have had, and the next claim reads what lies behind. Else each claim would walk
        -- over that.
        v_end := coalesce((select greatest(w.again, u.i)
                           from unnest(w.ids, w.flags) with ordinality u(id, flags, i)
                           where u.flags & (2 | 4) = 0 and (u.flags & 1 = 0 or u.id = any (v_free))
                           order by u.i offset v_most - 1 limit 1), w.found);
        w.used_up := w.used_up and v_end = w.found;
    end if;
    if w.found <= w.want and w.flagged & 15 = 0 and w.used + w.size <= p_max_bytes then
        select array(select generate_series(1, w.found)), w.ids, w.first, w.last, 0, false, 0,
               '{}'::xid8[], '{}'::bigint[]
        into w.picks, w.shared, w.low, w.high, w.singles, w.cut, w.aside, w.rest_xid, w.rest_id;
    else
        select array_agg(y.i) filter (where y.n is not null),
               array_agg(y.id) filter (where y.n is not null and not y.single),
               min(y.id) filter (where y.n is not null and not y.single),
               max(y.id) filter (where y.n is not null and not y.single),
               coalesce(sum(y.bytes) filter (where y.n is not null), 0),
               count(*) filter (where y.n is not null and y.single),
               count(y.n) < least(w.want, count(*) filter (where y.fits)),
               coalesce((array_agg(y.xid) filter (where y.locked))[:1000]
                        || array_agg(y.xid) filter (where y.fits and y.n is null), '{}'),
               coalesce((array_agg(y.id) filter (where y.locked))[:1000]
                        || array_agg(y.id) filter (where y.fits and y.n is null), '{}'),
               count(*) filter (where case when y.free then not y.good else y.i > w.again end)
        into w.picks, w.shared, w.low, w.high, w.size, w.singles, w.cut, w.rest_xid, w.rest_id,
            w.aside
        from (
            select c.*, not c.free and c.i <= v_end as locked,
                   case when c.fits and row_number() over upto <= w.want
                            and (w.used + sum(c.bytes) over upto <= p_max_bytes
                                 or (w.used = 0 and sum(c.bytes) over upto = c.bytes))
                            and not (c.single and count(*) filter (where c.single) over upto
                                                  > w.singles_left)
                        then row_number() over upto end as n  -- NULL: it is not taken
            from (select a.*, a.free and a.good and a.i <= v_end as fits
                  from (select u.i, u.id, u.xid, u.bytes, u.flags & 8 <> 0 as single,
                               u.flags & (2 | 4) = 0 as good,
                               (u.flags & 1 = 0 or u.id = any (v_free))
                                   and u.id <> all (v_locked) as free
                        from unnest(w.ids, w.xids, w.bytes, w.flags)
                            with ordinality u(id, xid, bytes, flags, i)) a) c
            window upto as (partition by c.fits
                            order by case when w.want >= p_window then c.i
                                          else hashint8extended(c.id, p_seed) end
                            rows unbounded preceding)) y;
    end if;
    w.want := w.want - coalesce(cardinality(w.picks), 0);
    w.used := w.used + w.size;
    w.singles_left := w.singles_left - w.singles;
    w.spare := w.spare - w.aside;
    if v_end > w.again then
        w.id := w.ids[v_end];
        w.xid := w.xids[v_end];
    end if;
    if w.used_up then
        w.done := w.cur;
        w.xid := null;
    end if;
    return w;
end
$$;
grant execute on function deferred.__claim_choose to deferred_worker;
