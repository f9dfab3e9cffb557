-- admin_ls_hot: jobs still to be run, oldest first; looks at the first 10,000 of queue, function
-- and state only.
-- params: queue text, fn text, state text, rows_max int4, after int8?, label text, key text,
--   rule text, created_by text, since text, until text, tags text[], index_label text
-- returns: as admin_ls_done
-- $3 waiting, delayed, ready or claimed; NULL: any. The other parameters are those of
--   admin_ls_done.
-- Rows: until_s: until it is due or its lease ends; negative: since. held_by: function, no worker
--   has it; while it is ready, paused or limit. If fits is false the row only tells how far was
--   looked. If last, it is the last that was looked at.
-- Locks: none. Index: __deferred_tags, where tags are given, that of __search_create() by $13, or
--   primary key of __deferred_hot, whose order it follows. Then for each job as the view
--   deferred.job, and primary key of __deferred_queue: "offset 0" forces these lookups. All of
--   __deferred_offer, once.
select j.id, j.state, j.queue, j.fn, j.label, j.priority::int4, j.attempt,
       deferred.__age_s(j.created_at) as age_s,
       -deferred.__age_s(h.visible_at) as until_s,
       j.last_outcome, row_to_json(j)::text as json, j.held_by, f.fits, h.n = 10000 as last
from (select x.id, row_number() over (order by x.id) as n,
      coalesce(l.expires_at, x.visible_at) as visible_at
      from deferred.__deferred_hot x
      left join lateral (select y.expires_at from deferred.__deferred_lease y
                         where x.fn is not null and y.span @> x.id and x.id = any (y.ids)
                           and y.expires_at > clock_timestamp()
                           and pg_visible_in_snapshot(x.xid, y.snap) order by y.expires_at desc
                               limit 1) l on true
      where ($1::text is null or x.queue = $1) and ($2::text is null or x.fn = $2)
        and ($3::text is null or $3 = case when l.expires_at is not null
                                               or (x.started_at is not null
                                                   and x.visible_at > clock_timestamp())
                                                       then 'claimed'
                                           when x.due_at = 'infinity'
                                               and exists (select from deferred.__deferred_wait w
                                                   where w.id = x.id) then 'waiting'
                                           when x.due_at > clock_timestamp() then 'delayed'
                                           else 'ready' end)
        and x.id > coalesce($5::int8, 0)
        and ($12::text[] is null
             or x.id = any (array(select d.id from deferred.__deferred d where d.tags @> $12)))
        and ($13::text is null or x.id = any (array(select d.id from deferred.__deferred d
            where hashtextextended(d.label collate "C", 0) = hashtextextended($13 collate "C", 0)
              and d.label = $13)))
      order by x.id limit 10000) h
cross join lateral (
    select x.*, case when x.state in ('ready', 'delayed')
                         and x.fn not in (select o.fn from deferred.__offered o)
                      and exists (select from deferred.__deferred_offer) then 'function'
                     when x.state = 'ready' then case when deferred.__is_paused(q) then 'paused'
                                                      when x.limited then 'limit' end end as held_by
    from deferred.job x left join deferred.__deferred_queue q on q.name = x.queue
    where x.id = h.id offset 0) j
cross join lateral (
    select coalesce(($6::text is null or j.label = $6) and ($7::text is null or j.key = $7)
                    and ($8::text is null or j.rule = $8)
           and ($9::text is null or j.created_by = $9)
           and ($10::text is null or j.created_at >= $10::timestamptz)
           and ($11::text is null or j.created_at < $11::timestamptz), false) as fits) f
where f.fits or h.n = 10000
order by h.id limit $4::int4
