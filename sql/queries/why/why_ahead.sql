-- why_ahead: how many jobs of its queue come before one that is ready. Those of its lane that are
-- in front, and those of a higher priority; not those that workers hold.
-- params: queue text, priority int4, xid text, job int8, counted int8
-- returns: jobs int8
-- Locks: none. Index: what deferred.__ready() reads of these lanes, without what was claimed. All
--   ended leases of the queue, and primary key of __deferred_hot for the jobs they hold.
select least($5::int8,
             (select count(*) from (select r.id from deferred.__ready(array[$1::text], $2::int4,
                 $3::text::xid8, $4::int8, $5) r limit $5) r)
           + (select count(distinct i.id)
              from deferred.__deferred_lease l
              cross join lateral unnest(l.ids) i(id)
              cross join lateral (
                 select h.priority, h.xid from deferred.__deferred_hot h
                 where h.id = any (array[i.id]) and pg_visible_in_snapshot(h.xid, l.snap)
                   and not h.limited offset 0) h
              where l.queue = $1 and l.expires_at <= clock_timestamp()
                and (h.priority > $2 or (h.priority = $2
                                         and (h.xid, i.id) < ($3::text::xid8, $4))))) as jobs
