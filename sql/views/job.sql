-- Every job as a viewer sees it: without params, results and error texts. A job that is due is
-- ready, though it keeps its due_at until a worker promotes it. If no worker does, the view shows
-- jobs that have long been ready.
create or replace view deferred.job as
    select d.id, d.queue, d.fn, d.label, d.key, d.priority, d.created_at, d.created_by,
           case when h.id is null then deferred.state(l.outcome)
                when held.worker is not null or (h.fn is null and h.receipt is not null
                                                 and h.visible_at > clock_timestamp())
                                                     then 'claimed'
                when h.due_at = 'infinity' and exists (select from deferred.__deferred_wait w
                                                       where w.id = h.id) then 'waiting'
                when h.due_at > clock_timestamp() then 'delayed'
                else 'ready' end as state,
           -- least() ignores NULL, and a job that has ended has no row h.
           coalesce(case when h.id is not null then least(h.attempt,
               2147483646) end + (held.worker is not null)::integer,
                    l.attempts, 0) as attempt,
           coalesce(held.expires_at, nullif(h.due_at, 'infinity'), h.visible_at) as visible_at,
           held.worker, coalesce(held.claimed_at, h.started_at) as started_at,
           case when h.id is null then l.finished_at end as finished_at,
           l.outcome as last_outcome,
           d.concurrency_key, coalesce(h.limited, false) as limited, d.rule, d.tags, d.traceparent
    from deferred.__deferred d
    left join deferred.__deferred_hot h using (id)
    left join lateral (
        select x.worker, x.claimed_at, x.expires_at from deferred.__deferred_lease x
        where x.span @> h.id and h.id = any (x.ids) and x.expires_at > clock_timestamp()
          and pg_visible_in_snapshot(h.xid, x.snap)
        order by x.expires_at desc limit 1) held on h.fn is not null
    left join lateral (
        select last_value(x.outcome) over w as outcome, max(x.attempt) over w as attempts,
               last_value(x.finished_at) over w as finished_at
        from deferred.__deferred_log x where x.job_id = d.id
        window w as (order by x.finished_at,
                     x.attempt rows between unbounded preceding and unbounded following) limit 1) l
                         on true;
comment on view deferred.job is 'every job with its state; without params, results and error texts';
grant select on deferred.job to deferred_worker, deferred_viewer;
