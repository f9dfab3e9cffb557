-- Part of deferred.check_ledger(): attempts that are missing in the log, or are there too often.
--
-- A purge takes attempts that ended before __deferred_upkeep.log_from, of jobs that are not hot, in
-- any order, and the jobs afterwards. So a job older than that may lack earlier attempts: only what
-- ended later must be complete.
create or replace function deferred.__ledger_attempts()
returns table (invariant text, job_id bigint, detail text)
language sql stable
as $$
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
    having case when d.created_at < u.log_from then max(l.attempt) else count(l.attempt) end
        <> h.attempt - (h.fn is null and h.receipt is not null)::integer
  union all
    select 'I6: no final row while hot', h.id, format('final row of attempt %s', l.attempt)
    from deferred.__deferred_hot h
    join deferred.__deferred_log l on l.job_id = h.id and l.final
        and l.attempt > coalesce(h.attempt_base, 0)
$$;
grant execute on function deferred.__ledger_attempts to deferred_worker;
