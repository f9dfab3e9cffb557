-- Part of deferred.__settle(): has those run or skipped that wait no more; locked: not yet.
--
-- Hot rows are never waited for: a job whose row somebody has locked, in a transaction prepared
-- perhaps, is put off.
create or replace function deferred.__settle_ready(p_ids bigint[], out locked bigint[])
language plpgsql
as $$
declare
    v_seen   bigint[] := array(select w.id from deferred.__deferred_wait w
                               where w.id = any (p_ids)
                                 and (w.waits <= 0 or w.unmet is not null));
    v_free   bigint[] := array(select h.id from deferred.__deferred_hot h
                               where h.id = any (v_seen) order by h.id for update skip locked);
    v_queues text[];
begin
    locked := array(select h.id from deferred.__deferred_hot h
                    where h.id = any (v_seen) and h.id <> all (v_free));
    -- One that somebody retried by hand waits no more.
    with ready as (
        update deferred.__deferred_hot h
        set due_at = case when w.due_at > clock_timestamp() then w.due_at end,
            visible_at = greatest(clock_timestamp(), w.due_at),
            xid = pg_current_xact_id(), watched = coalesce(h.watched, false)
        from deferred.__deferred_wait w
        where h.id = any (v_free) and w.id = h.id and w.unmet is null
          and w.failure is distinct from 0 and h.due_at = 'infinity'
        returning h.queue, h.due_at),
    gone as (
        delete from deferred.__deferred_hot h
        using (select w.id, w.unmet,
                      case when w.unmet is not null
                           then coalesce(e.what = 'n' or (e.kind = 'f' and e.what = 'o'),
                                         false) end as spare,
                      case when a.on_timeout = 'f' then 'failed' else 'cancelled' end as outcome,
                      format('event ''%s'' was not sent before %s', a.name, a.until) as timeout
               from deferred.__deferred_wait w
               left join deferred.__deferred_edge e on e.child = w.id and e.parent = w.unmet
               left join deferred.__deferred_awaited a on a.child = w.id and a.parent = w.unmet
               where w.id = any (v_free) and (w.unmet is not null or w.failure = 0)) w
        where h.id = w.id and h.due_at = 'infinity'
        returning h.id, w.unmet, w.spare, w.outcome, w.timeout,
                  case when h.watched then deferred.__note_end(h.id, 0,
                           case when w.unmet < 0 then w.outcome
                                when w.spare is false then 'skipped' else 'not needed' end)
                       else 0 end as attempt),
    log as (
        insert into deferred.__deferred_log (job_id, attempt, outcome, final, error)
        select g.id, g.attempt, g.outcome, true,
               case when g.unmet < 0 then g.timeout
                    when g.unmet is null then 'skipped: not needed, for no job of its flow failed'
                    when g.spare then format('skipped: not needed, for job %s did not fail',
                                             g.unmet)
                    else format('skipped: job %s, for which it waited, did not end as it must have',
                                g.unmet) end
        from gone g)
    select array_agg(distinct r.queue) into v_queues from ready r where r.due_at is null;
    delete from deferred.__deferred_wait w where w.id = any (v_seen) and w.id <> all (locked);
    perform deferred.__wake(q) from unnest(v_queues) q;
end
$$;
