-- Part of deferred.check_ledger(): rows of __deferred and __deferred_hot that contradict each
-- other, or that deferred.defer() does not store.
create or replace function deferred.__ledger_jobs()
returns table (invariant text, job_id bigint, detail text)
language sql stable
as $$
    select 'I1: a job is hot or has a final log row', d.id, 'neither hot nor finished'
    from deferred.__deferred d
    where d.created_at >= (select u.log_from from deferred.__deferred_upkeep u)
      and not exists (select from deferred.__deferred_hot h where h.id = d.id)
      and not exists (select from deferred.__deferred_log l where l.job_id = d.id and l.final)
  union all
    select 'I1: a hot row has its job', h.id, 'no row in __deferred'
    from deferred.__deferred_hot h
    where not exists (select from deferred.__deferred d where d.id = h.id)
  union all
    select 'I7: a hot row is delayed, ready or claimed', h.id,
           format('attempt %s of base %s, receipt %s, worker %s, due %s',
                  h.attempt, coalesce(h.attempt_base, 0), h.receipt, h.worker, h.due_at)
    from deferred.__deferred_hot h
    where h.attempt < h.attempt_base or h.attempt_base < 0
       or (h.unknown and (not h.limited or h.due_at is not null or h.concurrency_key is not null))
       or case when h.fn is not null
               then (h.receipt is null) <> (h.worker is null)
                    or (h.receipt is not null and (h.due_at is not null or not h.limited))
               else h.worker is not null or h.due_at <> h.visible_at
                    or (h.receipt is not null and h.visible_at > clock_timestamp()
                        and h.due_at is null) end
  union all
    select 'I7: a hot row repeats what its job says', h.id,
           format('key ''%s'', concurrency key ''%s'', max_attempts %s, bytes of params %s',
                  h.key, h.concurrency_key, h.max_attempts, h.params_bytes)
    from deferred.__deferred_hot h join deferred.__deferred d on d.id = h.id
    where (h.key is distinct from deferred.__own_key(d.created_by, d.key)
           -- Unless a job that has given its key up had the key, or this job has done so.
           and not (h.key is null and (d.key_until_ms = 0
                    or exists (select from deferred.__deferred_key k where k.queue = h.queue
                               and k.key = deferred.__own_key(d.created_by, d.key)
                               and k.job_id = h.id))))
       or h.concurrency_key is distinct from deferred.__own_key(d.created_by, d.concurrency_key)
       or (h.fn is not null
           and (h.max_attempts, h.params_bytes)
               is distinct from (d.max_attempts, deferred.__job_bytes(h.id, d.params)))
  union all
    select 'I11: a job with steps has not succeeded, and a claim asks for them', s.job_id,
           format('%s steps, state %s', count(*), (select j.state from deferred.job j
                                                   where j.id = s.job_id))
    from deferred.__deferred_step s
    left join deferred.__deferred_hot h on h.id = s.job_id
    where h.watched is null
    group by s.job_id, h.id
    having h.id is not null
        or exists (select from deferred.__deferred_log l
                   where l.job_id = s.job_id and l.final and l.outcome = 'ok')
  union all
    select 'I11: steps are within their limits', s.job_id,
           format('%s steps of %s bytes, numbers up to %s', count(*), sum(s.bytes), max(s.number))
    from deferred.__deferred_step s
    group by s.job_id
    having max(s.number) <> count(*) or max(s.number) > 1000 or sum(s.bytes) > 1048576
        or sum(s.bytes) <> sum(octet_length(s.value::text))
  union all
    select distinct 'I11: a step belongs to a job', s.job_id, 'no row in __deferred'
    from deferred.__deferred_step s
    where s.saved_at >= (select u.log_from from deferred.__deferred_upkeep u)
      and not exists (select from deferred.__deferred d where d.id = s.job_id)
  union all
    select 'I8: a job is as deferred.defer() stores it', d.id,
           format('function ''%s'', queue ''%s''', d.fn, d.queue)
    from deferred.__deferred d
    -- deferred-alert: __alert_job.sql
    where (d.fn !~ '^[A-Za-z_][A-Za-z0-9_.]{0,126}$' and d.fn <> 'deferred-alert')
       or deferred.__opts_bad(d.label, d.key, d.max_attempts, d.timeout_ms, d.backoff_floor_ms,
                              d.backoff_ceiling_ms, d.backoff_exponent,
                              key_until_ms => d.key_until_ms) is not null
       or not deferred.__tags_ok(d.tags)
  union all
    -- A job with key_until start has the row of its key while it holds the key.
    select 'I11: one job holds a key', min(h.id),
           format('key ''%s'' of queue ''%s'' is held by jobs %s', d.key, d.queue,
                  string_agg(h.id::text, ', ' order by h.id))
    from deferred.__deferred_hot h join deferred.__deferred d on d.id = h.id
    where d.key is not null
      and (d.key_until_ms is distinct from 0
           or (not deferred.__key_started(h)
               and exists (select from deferred.__deferred_key k
                           where k.queue = h.queue and k.job_id = h.id
                             and k.key = deferred.__own_key(d.created_by, d.key))))
    group by d.queue, d.created_by, d.key having count(*) > 1
$$;
grant execute on function deferred.__ledger_jobs to deferred_worker;
