-- Tables and claim of the second yardstick: a cursor and a lease, as in check_deferred, and nothing
-- more. Its lane is one queue at one priority. Batches have at least 100 jobs, so nothing is drawn
-- or left over. plain.ready is our hot table without partitions, and is never updated. The tables
-- below have the columns and indexes of ours. plain.place is the table of cursors.
create table plain.place (queue text collate "C" not null, priority smallint not null,
    seq bigint not null,
    done pg_snapshot not null, cur pg_snapshot not null, xid xid8 not null, id bigint not null,
    rest_xid xid8[] not null default '{}', rest_id bigint[] not null default '{}',
        primary key (queue, priority, seq))
    with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000,
        autovacuum_vacuum_cost_delay = 0);
create table plain.lease (id bigint generated always as identity primary key,
    queue text collate "C" not null, worker bigint not null,
    receipt bigint not null, ids bigint[] not null, span int8range not null,
        snap pg_snapshot not null, alone boolean not null default false,
    claimed_at timestamptz not null default now(), expires_at timestamptz not null)
    with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000,
        autovacuum_vacuum_cost_delay = 0);
create index on plain.lease using gist (span);
-- To compress 4 kB costs more than to write them.
alter table plain.lease alter column ids set storage external;

-- All jobs that `done` sees have been handed out. Of the others that `cur` sees, those up to
-- (xid, id) have been handed out.
insert into plain.place (queue, priority, seq, done, cur, xid, id)
    values ('default', 0, 1, '1:1:', '1:1:', '0', 0);

-- Takes the next `wanted` jobs, reads their calls and writes the lease. It commits
-- asynchronously: a crash loses cursor and lease together. Results come later in the WAL.
create function plain.claim(p_wanted int, p_worker bigint, p_receipt bigint, out lease bigint,
    out tids tid[], out jobs bigint)
language plpgsql as $$
declare
    v_place plain.place;
    v_seq   bigint;
    v_ids   bigint[] := '{}';
    v_got   record;
begin
    perform set_config('synchronous_commit', 'off', true);
    -- The place is gone after a wait, because its holder stored the next one. A new statement
    -- sees that.
    loop
        select p.* into v_place from plain.place p where p.queue = 'default' and p.priority = 0
        order by p.queue, p.priority, p.seq desc limit 1 for update;
        exit when found;
    end loop;
    v_seq := v_place.seq;
    tids := '{}';
    for look in 1..2 loop
        if v_place.done::text = v_place.cur::text then
            -- Rows are read in the next statement, whose snapshot is later.
            v_place.cur := pg_current_snapshot();
            v_place.xid := '0';
            v_place.id := 0;
        end if;
        with late as (
            select h.ctid as tid, h.id, h.xid
            from pg_snapshot_xip(v_place.done) x(xid), lateral (
                select r.ctid, r.id, r.xid from plain.ready r
                where r.queue = 'default' and r.priority = 0 and r.due_at is null and not r.limited
                    and r.fn is not null
                  and r.xid = x.xid and r.id > case when x.xid = v_place.xid then v_place.id
                      else 0 end
                order by r.queue, r.priority desc, r.xid,
                    r.id limit p_wanted - cardinality(v_ids)) h
            where x.xid >= v_place.xid and pg_visible_in_snapshot(x.xid, v_place.cur)),
        later as (
            select r.ctid as tid, r.id, r.xid from plain.ready r
            where r.queue = 'default' and r.priority = 0 and r.due_at is null and not r.limited
                and r.fn is not null
              and (r.xid, r.id) > (greatest(v_place.xid, pg_snapshot_xmax(v_place.done)),
                                   case when v_place.xid >= pg_snapshot_xmax(v_place.done)
                                       then v_place.id else 0 end)
              and r.xid < pg_snapshot_xmax(v_place.cur)
                  and pg_visible_in_snapshot(r.xid, v_place.cur)
            order by r.queue, r.priority desc, r.xid, r.id limit p_wanted - cardinality(v_ids))
        select array_agg(n.tid) as tids, array_agg(n.id) as ids,
            (array_agg(n.xid))[count(*)] as xid into v_got
        from (select * from late union all select * from later
            order by xid, id limit p_wanted - cardinality(v_ids)) n;
        if v_got.ids is not null then
            tids := tids || v_got.tids;
            v_ids := v_ids || v_got.ids;
            v_place.xid := v_got.xid;
            v_place.id := v_got.ids[cardinality(v_got.ids)];
        end if;
        exit when cardinality(v_ids) = p_wanted;
        v_place.done := v_place.cur;
    end loop;
    insert into plain.place (queue, priority, seq, done, cur, xid, id)
    values ('default', 0, v_seq + 1, v_place.done, v_place.cur, v_place.xid, v_place.id);
    delete from plain.place p where p.queue = 'default' and p.priority = 0 and p.seq = v_seq;
    if cardinality(v_ids) > 0 then
        insert into plain.lease (queue, worker, receipt, ids, span, snap, expires_at)
        select 'default', p_worker, p_receipt, v_ids, int8range(min(i), max(i), '[]'), v_place.cur,
            now() + interval '1 min' from unnest(v_ids) i
        returning id into lease;
    end if;
    select count(d.fn) + count(d.params) into jobs from plain.job d where d.id = any (v_ids);
end
$$;
