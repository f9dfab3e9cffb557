-- admin_ls_hot: jobs still to be run, oldest first.
-- $1 queue (text), $2 function (text), $3 state ready, delayed or claimed (text); each NULL: any. $4 most rows (int4)
-- returns id (int8), state, queue, fn, label (text), priority (int4), attempt (int4), seconds since it was deferred (int8),
--   seconds until it is due, or while claimed until the lease ends, negative: since (int8), last outcome (text), the job as a
--   JSON object with held_by (text), what holds it back: function, no worker has it; while it is ready, paused, its queue, or limit, it may
--   (text; NULL: nothing)
-- locks: none. Index: primary key of __deferred_hot, whose order it follows, then for each job as the view deferred.job
--   (offset 0 has it looked up job by job) and primary key of __deferred_queue; all of __deferred_offer, once
select j.id, j.state, j.queue, j.fn, j.label, j.priority::int4, j.attempt,
       extract(epoch from clock_timestamp() - j.created_at)::int8, extract(epoch from h.visible_at - clock_timestamp())::int8,
       j.last_outcome, row_to_json(j)::text, j.held_by
from (select x.id, coalesce(l.expires_at, x.visible_at) as visible_at
      from deferred.__deferred_hot x
      left join lateral (select y.expires_at from deferred.__deferred_lease y
                         where x.fn is not null and y.span @> x.id and x.id = any (y.ids) and y.expires_at > clock_timestamp()
                           and pg_visible_in_snapshot(x.xid, y.snap) order by y.expires_at desc limit 1) l on true
      where ($1::text is null or x.queue = $1) and ($2::text is null or x.fn = $2)
        and ($3::text is null or $3 = case when l.expires_at is not null or (x.started_at is not null and x.visible_at > clock_timestamp()) then 'claimed'
                                           when x.due_at > clock_timestamp() then 'delayed'
                                           else 'ready' end)
      order by x.id limit $4::int4) h
cross join lateral (
    select x.*, case when x.state in ('ready', 'delayed') and x.fn not in (select o.fn from deferred.__offered o)
                      and exists (select from deferred.__deferred_offer) then 'function'
                     when x.state = 'ready' then case when q.paused then 'paused' when x.limited then 'limit' end end as held_by
    from deferred.job x left join deferred.__deferred_queue q on q.name = x.queue
    where x.id = h.id offset 0) j
order by h.id
