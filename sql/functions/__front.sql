-- What is claimed lies before what is not, but for a few jobs. Where many workers claim, each would walk over all that the others
-- hold, the longer the more they are. So the end of it is found by halving: first which transaction it lies in, then where among
-- the ids of that one. Jobs that are passed over in this way are left to claims that read everything.
create or replace function deferred.__front(p_queue text, p_priority integer, p_xid xid8, p_id bigint, p_until xid8, p_half integer, out xid xid8, out id bigint)
language plpgsql stable strict
as $$
declare
    v_low   bigint;
    v_high  bigint := least(p_until, pg_snapshot_xmax(pg_current_snapshot()))::text::bigint;
    v_xid   xid8 := p_xid;
    v_id    bigint := p_id;
    v_job   record;
begin
    xid := p_xid;
    id := p_id;
    loop
        select h.xid, h.id, h.visible_at > now() as claimed into v_job
        from deferred.__deferred_hot h
        where h.queue = p_queue and h.priority = p_priority and h.due_at is null and not h.limited and h.fn is not null
          and (h.xid, h.id) >= (v_xid, v_id) and h.xid < p_until and (p_half < 0 or (hashint8(h.id) & 1) = p_half)
        order by h.xid, h.id limit 1;
        if v_job.claimed then
            xid := v_job.xid;
            id := v_job.id;
            v_low := xid::text::bigint;
        elsif v_low is null then
            return;  -- nothing to pass over
        else
            v_high := v_xid::text::bigint;
        end if;
        exit when v_high - v_low < 2;
        v_xid := (v_low + (v_high - v_low) / 2)::text::xid8;
        v_id := -9223372036854775808;
    end loop;

    v_low := id;
    select h.id + 1 into v_high
    from deferred.__deferred_hot h
    where h.queue = p_queue and h.priority = p_priority and h.due_at is null and not h.limited and h.fn is not null and h.xid = __front.xid
      and (p_half < 0 or (hashint8(h.id) & 1) = p_half)
    order by h.id desc limit 1;
    while v_high - v_low > 1 loop
        v_id := v_low + (v_high - v_low) / 2;
        select h.id, h.visible_at > now() as claimed into v_job
        from deferred.__deferred_hot h
        where h.queue = p_queue and h.priority = p_priority and h.due_at is null and not h.limited and h.fn is not null
          and h.xid = __front.xid and h.id >= v_id and (p_half < 0 or (hashint8(h.id) & 1) = p_half)
        order by h.id limit 1;
        if v_job.claimed then
            id := v_job.id;
            v_low := id;
        else
            v_high := v_id;
        end if;
    end loop;
end
$$;
comment on function deferred.__front is 'where in a lane, or in the half 0 or 1 of it, the claimed jobs end and the ready ones begin; nearly so, for a few lie before; part of a claim';
grant execute on function deferred.__front to deferred_worker;
