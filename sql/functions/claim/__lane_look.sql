-- Returns whether a lane has a job that has not been handed out. This takes no lock and uses only
-- the index. Of dead rows it reads only those beyond the cursor. The file
-- sql/functions/claim/__claim.sql explains cursors.
create or replace function deferred.__lane_look(p_queue text, p_priority integer) returns boolean
language plpgsql stable
as $$
declare
    v deferred.__deferred_cursor;
begin
    select p.* into v from deferred.__deferred_cursor p
    where p.queue = p_queue and p.priority = p_priority
    order by p.queue desc, p.priority desc, p.seq desc limit 1;
    if not found or pg_snapshot_xmax(v.cur) > pg_snapshot_xmax(pg_current_snapshot()) then
        return exists (select from deferred.__deferred_hot h
                       where h.queue = p_queue and h.priority = p_priority
                         and deferred.__in_lane(h.due_at, h.limited, h.fn) limit 1);
    end if;
    if v.rest_id <> '{}' then
        perform from unnest(v.rest_xid, v.rest_id) r(xid, id)
        cross join lateral (
            select from deferred.__deferred_hot h
            where h.id = any (array[r.id]) and h.xid = r.xid and h.due_at is null and not h.limited
            limit 1) h limit 1;
        if found then
            return true;
        end if;
    end if;
    perform from deferred.__deferred_hot h
    where h.queue = p_queue and h.priority = p_priority
      and deferred.__in_lane(h.due_at, h.limited, h.fn)
      and (h.xid, h.id) > (greatest(coalesce(v.xid, '0'),
                                    pg_snapshot_xmax(case when v.xid is null then v.cur
                                        else v.done end)),
                           case when v.xid >= pg_snapshot_xmax(v.done) then v.id else 0 end)
    order by h.queue, h.priority, h.xid, h.id limit 1;
    if found then
        return true;
    end if;
    -- Jobs of transactions that were open when the snapshots were taken, and have committed since.
    perform from (select x from pg_snapshot_xip(v.cur) x union select x
                  from pg_snapshot_xip(v.done) x where v.xid is not null and x >= v.xid) o
    cross join lateral (
        select from deferred.__deferred_hot h
        where h.queue = p_queue and h.priority = p_priority
          and deferred.__in_lane(h.due_at, h.limited, h.fn)
          and h.xid between o.x and o.x
          and (o.x <> coalesce(v.xid, '0') or h.id > v.id)
        order by h.queue, h.priority, h.xid, h.id limit 1) h limit 1;
    return found;
end
$$;
grant execute on function deferred.__lane_look to deferred_worker;
