-- run_probe: is there anything to do? A run sends it after it has seen some job, and a service
-- after a notification.
-- params: queues text[], instance text, from timestamptz
-- returns: work bool, unclean bool
-- $1 NULL: all queues. $2 host and pidfile. $3: as $2 of job_promote.sql.
-- Rows: one row. work: a job is ready or due, or a lease has ended. unclean: the previous run of
--   this instance left claims.
-- Locks: none. Indexes: primary key of __deferred_cursor, __deferred_hot_ready,
--   __deferred_hot_limited, __deferred_hot_concurrency, __deferred_hot_delayed,
--   __deferred_lease_expires, __deferred_worker_alive.
-- (select true ... limit 1) where exists () would let the planner hash a whole index.
-- Where there are more lanes, or queues under limits, claims find out what there is.
select exists (select from deferred.__lanes($1::text[], 101)
               with ordinality n(queue, priority, nth)
               left join lateral (select deferred.__is_paused(x) as paused
                                  from deferred.__deferred_queue x
                                  where x.name = n.queue limit 1) q on true
               where n.nth > 100
                  or (q.paused is not true and deferred.__lane_look(n.queue, n.priority)))
       or exists (select from deferred.__deferred_lease l
                  where l.expires_at < now() and ($1::text[] is null or l.queue = any ($1)))
       or exists (select from deferred.__limited_queues($1::text[], 101)
                  with ordinality q(name, nth)
                  where q.nth > 100
                     or ((select true from deferred.__deferred_queue p
                          where p.name = q.name and deferred.__is_paused(p) limit 1) is not true
                         and ((select true from deferred.__deferred_hot h
                               where h.queue = q.name and h.limited and not h.unknown
                                 and h.due_at is null and h.concurrency_key is null
                                 and h.receipt is null and h.fn is not null limit 1)
                              or (select true from deferred.__deferred_hot h
                                  where h.queue = q.name and h.concurrency_key is not null
                                    and h.due_at is null and h.receipt is null and h.fn is not null
                                        limit 1))))
       -- Jobs set aside: a start may have their functions. A service has said which it has.
       or (exists (select from unnest(coalesce($1::text[], array[null])) s(queue)
                   where (select true from deferred.__deferred_hot h
                          where h.unknown and h.limited and h.due_at is null
                            and h.concurrency_key is null
                            and h.queue >= coalesce(s.queue, '')
                            and h.queue <= coalesce(s.queue, '~') limit 1))
           and not exists (select from deferred.__deferred_worker w
                           where w.instance = $2::text and w.ended_at is null))
       or exists (select from deferred.__deferred_hot h
                  where h.due_at <= now() and h.fn is not null
                    and h.due_at >= $3::timestamptz
                    and ($1::text[] is null or h.queue = any ($1))) as work,
       exists (select from deferred.__deferred_worker w where w.instance = $2::text
               and w.ended_at is null) as unclean
