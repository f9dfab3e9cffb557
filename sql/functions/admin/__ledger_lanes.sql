-- Part of deferred.check_ledger(): ready jobs that no claim would find, or that two would.
create or replace function deferred.__ledger_lanes()
returns table (invariant text, job_id bigint, detail text)
language sql stable
as $$
    select 'I9: a ready job is beyond its cursor, left over, or held once', b.id,
           format('in %s ways (xid %s)', b.n, b.xid)
    from (select h.id, h.xid,
                 (select count(*) from deferred.__deferred_lease l
                  where h.id = any (l.ids) and pg_visible_in_snapshot(h.xid, l.snap)
                    and not exists (select from deferred.__deferred_lease o
                                    where o.receipt = l.receipt and o.ctid < l.ctid
                                      and h.id = any (o.ids)))
                 + (p.queue is null
                    or not (pg_visible_in_snapshot(h.xid, p.done)
                            or (pg_visible_in_snapshot(h.xid, p.cur)
                                and (p.xid is null or (h.xid, h.id) <= (p.xid, p.id)))))::integer
                 + (select count(*) from unnest(p.rest_xid, p.rest_id) r(xid, id)
                    where r.id = h.id and r.xid = h.xid) as n
          from deferred.__deferred_hot h
          left join lateral (select x.* from deferred.__deferred_cursor x
                             where x.queue = h.queue and x.priority = h.priority
                             order by x.seq desc limit 1) p on true
          where deferred.__in_lane(h.due_at, h.limited, h.fn)) b
    where b.n <> 1
  union all
    select 'I9: a lane has one cursor', null,
           format('queue ''%s'', priority %s: %s cursors', p.queue, p.priority, count(*))
    from deferred.__deferred_cursor p group by p.queue, p.priority having count(*) > 1
$$;
grant execute on function deferred.__ledger_lanes to deferred_worker;
