-- A purge takes attempts that ended before __deferred_upkeep.log_from, of jobs that are not hot, in
-- whatever order they lie, and then the jobs. So of a job that is older than that nobody can say
-- whether it ever had those attempts: what is left of it has to be whole from there on.
create or replace function deferred.check_ledger() returns table (invariant text, job_id bigint,
    detail text)
-- compiling its parts takes half a second, reading a small history none
language sql stable set jit = off
as $$
    select 'I1: a job is hot or has a final log row', d.id, 'neither hot nor finished'
    from deferred.__deferred d
    where d.created_at >= (select u.log_from from deferred.__deferred_upkeep u)
      and not exists (select from deferred.__deferred_hot h where h.id = d.id)
      and not exists (select from deferred.__deferred_log l where l.job_id = d.id and l.final)
  union all
    select 'I1: a hot row has its job', h.id, 'no row in __deferred'
    from deferred.__deferred_hot h where not exists (select from deferred.__deferred d
                                                     where d.id = h.id)
  union all
    select 'I2: at most one ok', l.job_id, format('%s ok rows', count(*))
    from deferred.__deferred_log l where l.outcome = 'ok' group by l.job_id having count(*) > 1
  union all
    select 'I3: attempts are numbered 1..n', l.job_id,
           format('%s rows, numbers up to %s', count(*), max(l.attempt))
    from deferred.__deferred_log l cross join deferred.__deferred_upkeep u
    left join deferred.__deferred d on d.id = l.job_id
    where l.attempt > 0
    group by l.job_id, d.created_at, u.log_from
    having count(distinct l.attempt) <> count(*)
        or case when d.created_at < u.log_from
                then count(*) filter (where l.finished_at >= u.log_from) <> max(l.attempt) -
                    min(l.attempt) filter (where l.finished_at >= u.log_from) + 1
                else count(*) <> max(l.attempt) end
  union all
    select 'I3: only a claim is missing in the log', h.id,
           format('attempt %s, %s logged', h.attempt, count(l.attempt))
    from deferred.__deferred_hot h cross join deferred.__deferred_upkeep u
    left join deferred.__deferred d on d.id = h.id
    left join deferred.__deferred_log l on l.job_id = h.id and l.attempt > 0
    group by h.id, h.attempt, h.receipt, d.created_at, u.log_from
    having case when d.created_at < u.log_from then max(l.attempt)
                else count(l.attempt) end <> h.attempt - (h.fn is null
                    and h.receipt is not null)::integer
  union all
    select 'I6: no final row while hot', h.id, format('final row of attempt %s', l.attempt)
    from deferred.__deferred_hot h join deferred.__deferred_log l on l.job_id = h.id and l.final
        and l.attempt > coalesce(h.attempt_base, 0)
  union all
    select 'I7: a hot row is delayed, ready or claimed', h.id,
           format('attempt %s of base %s, receipt %s, worker %s, due %s',
           h.attempt, coalesce(h.attempt_base, 0), h.receipt, h.worker, h.due_at)
    from deferred.__deferred_hot h
    where h.attempt < h.attempt_base or h.attempt_base < 0
      or (h.unknown and (not h.limited or h.due_at is not null or h.concurrency_key is not null))
       or case when h.fn is not null then (h.receipt is null) <> (h.worker is null)
                   or (h.receipt is not null and (h.due_at is not null or not h.limited))
               else h.worker is not null or h.due_at <> h.visible_at
                    or (h.receipt is not null and h.visible_at > clock_timestamp()
                        and h.due_at is null) end
  union all
    select 'I9: a ready job is beyond its place, left over, or held once', b.id,
           format('in %s ways (xid %s)', b.n, b.xid)
    from (select h.id, h.xid,
                 (select count(*) from deferred.__deferred_lease l
                  where h.id = any (l.ids) and pg_visible_in_snapshot(h.xid, l.snap)
                    and not exists (select from deferred.__deferred_lease o
                                    where o.receipt = l.receipt and o.ctid < l.ctid
                                      and h.id = any (o.ids)))
                 + (p.queue is null or not (pg_visible_in_snapshot(h.xid, p.done)
                                            or (pg_visible_in_snapshot(h.xid, p.cur)
                    and (p.xid is null or (h.xid, h.id) <= (p.xid, p.id)))))::integer
                 + (select count(*) from unnest(p.rest_xid, p.rest_id) r(xid, id)
                    where r.id = h.id and r.xid = h.xid) as n
          from deferred.__deferred_hot h
          left join lateral (select x.* from deferred.__deferred_place x
                             where x.queue = h.queue and x.priority = h.priority
                             order by x.seq desc limit 1) p on true
          where h.due_at is null and not h.limited and h.fn is not null) b
    where b.n <> 1
  union all
    select 'I9: a lane has one place', null, format('queue ''%s'', priority %s: %s places',
                                                    p.queue, p.priority, count(*))
    from deferred.__deferred_place p group by p.queue, p.priority having count(*) > 1
  union all
    select 'I7: a hot row has its job''s keys', h.id, format('key ''%s'', concurrency key ''%s''',
                                                             h.key, h.concurrency_key)
    from deferred.__deferred_hot h join deferred.__deferred d on d.id = h.id
    where h.key is distinct from deferred.__own_key(d.created_by, d.key)
       or h.concurrency_key is distinct from deferred.__own_key(d.created_by, d.concurrency_key)
  union all
    select 'I7: a hot row says of its job what a claim is to know', h.id,
           format('max_attempts %s, bytes of params %s', h.max_attempts, h.params_bytes)
    from deferred.__deferred_hot h join deferred.__deferred d on d.id = h.id
    where h.fn is not null and (h.max_attempts is distinct from d.max_attempts
                                or h.params_bytes is distinct from deferred.__params_bytes(d.params))
  union all
    select 'I10: who waits counts the edges that are not met', w.id,
           format('counts %s, unmet are %s', w.waits, e.n)
    from deferred.__deferred_wait w
    cross join lateral (select count(*) filter (where x.what is null) + count(*)
                        filter (where not deferred.__edge_met(x.kind, x.what)) as n
                        from deferred.__deferred_edge x where x.child = w.id) e
    where w.waits <> e.n + exists (select from deferred.__deferred_flow_open o
                                   where w.id = any (o.callbacks))::integer
  union all
    select 'I10: a callback of failure knows whether there was one', w.id,
           format('knows of %s', w.failure)
    from deferred.__deferred_wait w
    where (w.failure > 0) <> exists (select from deferred.__deferred_edge x
                                     where x.child = w.id and x.kind = 'F' and x.what in ('f', 's'))
      and exists (select from deferred.__deferred_edge x where x.child = w.id)
  union all
    select 'I10: a job that waits has a count, or its row is locked', h.id,
           'no row in __deferred_wait'
    from deferred.__deferred_hot h
    where h.due_at = 'infinity' and exists (select from deferred.__deferred_edge e
                                            where e.child = h.id)
      and not exists (select from deferred.__deferred_wait w where w.id = h.id)
  union all
    select 'I10: an end is told, or a note is there', e.child,
           format('waits for job %s, which is gone', e.parent)
    from deferred.__deferred_edge e join deferred.__deferred_wait w on w.id = e.child
    where e.what is null and not exists (select from deferred.__deferred_hot h
                                         where h.id = e.parent)
      and not exists (select from deferred.__deferred_ended n
                      where (n.id = e.parent and n.after < e.child)
                        or (n.id = e.child and n.what = 'l'
                            and coalesce(n.upto, e.parent) = e.parent))
  union all
    select 'I10: who is waited for is watched', e.child,
           format('waits for job %s, which is not', e.parent)
    from deferred.__deferred_edge e join deferred.__deferred_wait w on w.id = e.child
    join deferred.__deferred_hot h on h.id = e.parent
    where e.what is null and h.watched is not true
      and not exists (select from deferred.__deferred_ended n
                      where (n.id = e.parent and n.after < e.child)
                        or (n.id = e.child and n.what = 'l'
                            and coalesce(n.upto, e.parent) = e.parent))
  union all
    select 'I10: a closed flow ends, or knows for whose end it waits, or a note is there',
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
    select 'I10: no job is passed by that has not ended', m.job, format('of flow %s', o.flow)
    from deferred.__deferred_flow_open o join deferred.__deferred_member m on m.flow = o.flow
        and m.job <= o.upto and m.part is distinct from 't'
    join deferred.__deferred_hot h on h.id = m.job and coalesce(h.attempt_base, 0) = 0
  union all
    select
        'I10: a flow knows of a failure for which the rest is to be cancelled, or a note is there',
        m.job, format('of flow %s', m.flow)
    from deferred.__deferred_flow f join deferred.__deferred_member m on m.flow = f.id
        and m.part is distinct from 't'
    where f.on_failure = 'cancel' and f.failed is null
      and exists (select from deferred.__deferred_log l where l.job_id = m.job and l.final
                  and l.outcome <> 'ok' and (l.finished_at <= f.retried_at) is not true
                  and (l.attempt > 0 or l.error not like 'skipped: %'))
      and not exists (select from deferred.__deferred_ended n where n.id = m.job and n.what = 'f')
  union all
    select 'I8: a job is as deferred.defer() stores it', d.id,
           format('function ''%s'', queue ''%s''',
                                                                      d.fn, d.queue)
    from deferred.__deferred d
    -- __alert_job.sql
    where (d.fn !~ '^[A-Za-z_][A-Za-z0-9_.]{0,126}$' and d.fn <> 'deferred-alert')
       or not deferred.__opts_ok(d.label, d.key, d.max_attempts, d.timeout_ms, d.backoff_floor_ms,
                                 d.backoff_ceiling_ms,
                                 d.backoff_exponent)
       or not deferred.__tags_ok(d.tags)
$$;
comment on function deferred.check_ledger() is
    'violations of the promises kept between the tables: no rows when all is well. Reads '
    'everything; for tests and doubts';
grant execute on function deferred.check_ledger() to deferred_worker;
