-- Queues whose first job has been ready for longer than it should; by the sample that folding takes
-- each minute. If no worker that serves such a queue was seen since that job became ready, the
-- alert is 'unserved' instead of 'late'. A run is at work while it has a lease; one whose host went
-- down has none soon. Of workers the newest 2,000 registrations are read. Returns false where the
-- sample is old, and tells nothing.
create or replace function deferred.__alert_queues(p json) returns boolean
language plpgsql
as $$
declare
    v_at timestamptz := (select f.sampled_at from deferred.__deferred_folded f);
    v    record;
begin
    if v_at not between now() - interval '5 minutes' and clock_timestamp() then
        return false;
    end if;
    for v in
        select d.queue, d.ready, d.more, d.oldest_s, l.late_s,
               (exists (select from deferred.__deferred_hot h
                        where h.queue = d.queue and deferred.__in_lane(h.due_at, h.limited, h.fn))
                or exists (select from deferred.__deferred_hot h
                           where h.queue = d.queue and h.due_at is null and h.limited
                             and h.concurrency_key is null and h.unknown in (false, true))
                or exists (select from deferred.__deferred_hot h
                           where h.queue = d.queue and h.due_at is null
                             and h.concurrency_key is not null))
               and not exists (
                   select from (select x.* from deferred.__deferred_worker x order by x.id desc
                                limit 2000) w
                   where (w.queues is null or d.queue = any (w.queues))
                     and (greatest(w.started_at, w.seen_at,
                                   w.ended_at) > now() - d.oldest_s * interval '1 second'
                          or (w.ended_at is null and exists (select from deferred.__deferred_lease e
                              where e.worker = w.id and e.expires_at > now())))) as unserved
        from deferred.__deferred_queue q
        join deferred.__deferred_depth d on d.queue = q.name and d.at = v_at
        cross join lateral (select coalesce((p->'late_queues'->>q.name)::bigint,
                                            (p->>'late_ms')::bigint) / 1000.0 as late_s) l
        where q.name <> p->>'queue' and not deferred.__is_paused(q) and not d.paused
          and l.late_s > 0 and d.oldest_s >= l.late_s
    loop
        perform deferred.__alert_found(
            case when v.unserved then 'unserved' else 'late' end, v.queue,
            format('%s: %s%s job%s wait%s in it, the first for %s',
                   case when v.unserved then 'no worker serves queue ' || v.queue
                        else format('queue %s is late', v.queue) end, v.ready,
                   case when v.more then ' or more' end,
                   case when v.ready <> 1 or v.more then 's' end,
                   case when v.ready = 1 and not v.more then 's' end,
                   deferred.__age(v.oldest_s)),
            format('deferred why --queue %s', v.queue));
    end loop;
    return true;
end
$$;
