-- Jobs that nobody would find: handed out, as far as the place of their lane tells, and in no lease
-- and in no rest. That is so after a dump was restored, or somebody changed rows by hand. They get
-- a new xid, and lie beyond the place again.
--
-- Anybody can make many lanes and many jobs. So the caller can limit the lanes and pages of jobs
-- that are read. The next such call continues after them, and starts again after the last one.
create or replace function deferred.__repair(p_lanes integer default null,
                                             p_pages bigint default null)
returns bigint
language plpgsql
as $$
declare
    -- places of empty lanes: one tells where the dead behind it end
    v_kept  constant integer := 64;
    v_many  boolean := (select count(*) > v_kept from (select from deferred.__deferred_cursor
                                                       limit v_kept + 1) p);
    v_pages bigint := pg_relation_size('deferred.__deferred_hot')
                      / current_setting('block_size')::integer;
    v       deferred.__deferred_upkeep;
    v_lane  record;
    v_rows  bigint;
    v_all   bigint := 0;
begin
    select u.* into v from deferred.__deferred_upkeep u;
    if p_lanes is null then
        v.repair_queue := '';
        v.repair_page := 0;
    end if;
    -- Leases of the server that the dump was made of: they seem to hold whatever becomes ready
    -- here.
    delete from deferred.__deferred_lease l
    where pg_snapshot_xmax(l.snap) > pg_snapshot_xmax(pg_current_snapshot());
    for v_lane in
        with recursive lane as (
            select v.repair_queue collate "C" as queue, v.repair_priority as priority, 0 as n
            union all
            select x.queue, x.priority, l.n + 1
            from lane l
            cross join lateral (
                select p.queue, p.priority from deferred.__deferred_cursor p
                where (p.queue, p.priority) > (l.queue, l.priority)
                order by p.queue, p.priority limit 1) x
            where p_lanes is null or l.n < p_lanes)
        select l.queue, l.priority, l.n from lane l where l.n > 0
    loop
        v_all := v_all + deferred.__repair_lane(v_lane.queue, v_lane.priority, v_many);
    end loop;
    -- Notes of ends, in the same way: they are looked for from the beginning once.
    insert into deferred.__deferred_ended_cursor (late, seq, done, at)
    select k.late, coalesce(max(t.seq), 0) + 1, '1:1:', '0'
    from (values (false), (true)) k(late)
    left join deferred.__deferred_ended_cursor t on t.late = k.late
    group by k.late on conflict do nothing;
    -- Limited calls whose rows say that they are claimed.
    update deferred.__deferred_hot h set receipt = null, worker = null
    where h.ctid = any (array(
        select x.ctid from deferred.__deferred_hot x
        where x.ctid >= format('(%s,0)', v.repair_page)::tid
          and x.ctid < format('(%s,0)', least(v_pages, v.repair_page + p_pages))::tid
          and x.limited and x.receipt is not null and x.fn is not null
          and not exists (select from deferred.__deferred_lease l
                          where l.span @> x.id and x.id = any (l.ids)
                            and pg_visible_in_snapshot(x.xid, l.snap))
        for update skip locked));
    get diagnostics v_rows = row_count;
    update deferred.__deferred_upkeep u
    set repair_queue = case when v_lane.n = p_lanes then v_lane.queue else '' end,
        repair_priority = case when v_lane.n = p_lanes then v_lane.priority else -32768 end,
        repair_page = case when v.repair_page + p_pages < v_pages then v.repair_page + p_pages
                           else 0 end
    where p_lanes is not null;
    return v_all + v_rows;
end
$$;
comment on function deferred.__repair is
    'makes jobs ready again that are in no lease and would not be found; returns how many';
