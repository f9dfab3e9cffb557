-- Part of deferred.check_ledger(): jobs that would wait for ever, or not long enough, and flows
-- that would not end.
create or replace function deferred.__ledger_flows()
returns table (invariant text, job_id bigint, detail text)
language sql stable
as $$
    select 'I10: a waiting job counts its unmet edges', w.id,
           format('counts %s, unmet are %s', w.waits, e.n)
    from deferred.__deferred_wait w
    cross join lateral (select count(*) filter (where x.what is null) + count(*)
                        filter (where not deferred.__edge_met(x.kind, x.what)) as n
                        from deferred.__deferred_edge x where x.child = w.id) e
    where w.waits <> e.n + exists (select from deferred.__deferred_flow_open o
                                   where w.id = any (o.callbacks))::integer
  union all
    select 'I10: a failure callback knows whether a job failed', w.id,
           format('knows of %s', w.failure)
    from deferred.__deferred_wait w
    where (w.failure > 0) <> exists (select from deferred.__deferred_edge x
                                     where x.child = w.id and x.kind = 'F' and x.what in ('f', 's'))
      and exists (select from deferred.__deferred_edge x where x.child = w.id)
  union all
    select 'I10: a waiting job has a count, or its row is locked', h.id, 'no row in __deferred_wait'
    from deferred.__deferred_hot h
    where h.due_at = 'infinity'
      and exists (select from deferred.__deferred_edge e where e.child = h.id)
      and not exists (select from deferred.__deferred_wait w where w.id = h.id)
  union all
    select 'I10: a parent is watched, or there is a note of its end', e.child,
           format('waits for job %s, which is %s', e.parent,
                  case when h.id is null then 'gone' else 'not watched' end)
    from deferred.__deferred_edge e join deferred.__deferred_wait w on w.id = e.child
    left join deferred.__deferred_hot h on h.id = e.parent
    where e.what is null and e.parent > 0 and h.watched is not true
      and not exists (select from deferred.__deferred_ended n
                      where (n.id = e.parent and n.after < e.child)
                         or (n.id = e.child and n.what = 'l'
                             and coalesce(n.upto, e.parent) = e.parent))
  union all
    select 'I10: a closed flow ends, or knows for whose end it waits, or there is a note',
           coalesce(o.waits_for, o.flow), format('flow %s', o.flow)
    from deferred.__deferred_flow_open o
    where o.closed_at is not null
      and not exists (select from deferred.__deferred_hot h where h.id = o.waits_for and h.watched)
      and not exists (select from deferred.__deferred_ended n
                      where (n.id = o.flow and n.what = 'z')
                         or (n.id = o.waits_for and n.what <> 'l'))
      and not exists (select from deferred.__deferred_flow_retry r
                      where r.flow = o.flow and r.ended_at is null)
  union all
    select 'I10: a flow passes no job that has not ended', m.job, format('of flow %s', o.flow)
    from deferred.__deferred_flow_open o
    join deferred.__deferred_member m on m.flow = o.flow and m.job <= o.upto
        and m.part is distinct from 't'
    join deferred.__deferred_hot h on h.id = m.job and coalesce(h.attempt_base, 0) = 0
  union all
    select 'I10: a flow knows the failure that cancels the rest, or there is a note', m.job,
           format('of flow %s', m.flow)
    from deferred.__deferred_flow f
    join deferred.__deferred_member m on m.flow = f.id and m.part is distinct from 't'
    where f.on_failure = 'cancel' and f.failed is null
      and exists (select from deferred.__deferred_log l where l.job_id = m.job and l.final
                  and l.outcome <> 'ok' and (l.finished_at <= f.retried_at) is not true
                  and (l.attempt > 0 or l.error not like 'skipped: %'))
      and not exists (select from deferred.__deferred_ended n where n.id = m.job and n.what = 'f')
$$;
grant execute on function deferred.__ledger_flows to deferred_worker;
