-- They become new messages of NAME-poison, which do not expire unless that queue has a ttl: nobody
-- has looked at them yet.
create or replace function deferred.__message_poison(ids bigint[]) returns void
language plpgsql
as $$
declare
    v_now timestamptz := clock_timestamp();
begin
    -- They count for who made the queue, and are added beyond the quota too: one for each at most.
    insert into deferred.__deferred_queue (name, created_by)
    select distinct h.queue || '-poison', q.created_by
    from deferred.__deferred_hot h left join deferred.__deferred_queue q on q.name = h.queue
    where h.id = any ($1) order by 1
    on conflict do nothing;
    update deferred.__deferred_queue q set removed_at = null
    where q.removed_at is not null and q.name in (select h.queue || '-poison'
                                                  from deferred.__deferred_hot h
                                                  where h.id = any ($1));
    with gone as (
        delete from deferred.__deferred_hot h where h.id = any ($1)
        returning h.id, h.queue || '-poison' as queue, h.priority, h.receipt, h.started_at,
                  case when h.watched then deferred.__note_end(h.id, h.attempt, 'lost')
                       else h.attempt end
                  as attempt),
    new as materialized (
        select g.*, nextval('deferred.__deferred_id_seq') as new_id,
               v_now + (select q.ttl_ms from deferred.__deferred_queue q
                        where q.name = g.queue) * interval '1 millisecond' as expires_at
        from gone g order by g.id),
    hot as (
        insert into deferred.__deferred_hot (id, queue, priority, visible_at, expires_at, bounded)
        select n.new_id, n.queue, n.priority, v_now, n.expires_at,
               exists (select from deferred.__deferred_queue q
                       where q.name = n.queue and q.max_length is not null)
        from new n),
    call as (
        insert into deferred.__deferred (id, queue, params, label, priority, expires_at, created_at,
                                         created_by, tags, traceparent)
        select n.new_id, n.queue, d.params, format('job %s, taken %s times', n.id, n.attempt),
               n.priority, n.expires_at, v_now, d.created_by, d.tags, d.traceparent
        from new n join deferred.__deferred d on d.id = n.id)
    insert into deferred.__deferred_log (job_id, attempt, outcome, final, error, started_at,
                                         receipt)
    select n.id, case when n.receipt is null then 0 else n.attempt end,
           case when n.receipt is null then 'failed' else 'lost' end, true,
           format('taken %s times: moved to queue %s as job %s', n.attempt, n.queue, n.new_id),
           n.started_at, n.receipt
    from new n;
end
$$;
comment on function deferred.__message_poison(bigint[]) is
    'moves messages that were taken too often to the queue NAME-poison';
