-- One step; more is true while there is something left, or locked by somebody else just now.
create or replace function deferred.__message_clear_some(queue text, to_id bigint, batch integer,
    out cleared bigint, out more boolean)
language plpgsql
as $$
#variable_conflict use_column
begin
    with seen as materialized (
        (select h.id from deferred.__deferred_hot h where h.queue = $1 and h.fn is null
         and h.id <= $2)
        union all
        (select h.id from deferred.__deferred_hot h where h.queue = $1 and h.fn is not null
         and h.due_at is null and not h.limited and h.id <= $2)
        union all
        (select h.id from deferred.__deferred_hot h
         where h.queue = $1 and h.fn is not null and h.due_at is null and h.limited
           and h.concurrency_key is null and h.unknown in (false, true) and h.id <= $2)
        union all
        (select h.id from deferred.__deferred_hot h
         where h.queue = $1 and h.fn is not null and h.concurrency_key is not null
           and h.due_at is null and h.limited and h.id <= $2)
        union all
        (select h.id from deferred.__deferred_hot h
         where h.due_at is not null and h.fn is not null and h.queue = $1 and h.id <= $2)
        limit $3),
    row as materialized (
        select h.id from seen s join deferred.__deferred_hot h on h.id = s.id
        for update of h skip locked),
    gone as (
        delete from deferred.__deferred_hot h using row r where h.id = r.id
        returning h.id, case when h.watched then deferred.__note_end(h.id, h.attempt, 'cancelled')
                             else h.attempt end as attempt, h.receipt, h.started_at, h.fn, h.xid),
    held as materialized (
        select g.id, case when g.fn is null then g.attempt else g.attempt + 1 end as attempt,
               coalesce(l.claimed_at, g.started_at) as started_at,
               l.worker, coalesce(l.receipt, case when g.fn is null then g.receipt end) as receipt
        from gone g left join lateral (
            select x.* from deferred.__deferred_lease x
            where x.span @> g.id and g.id = any (x.ids) and x.expires_at > clock_timestamp()
              and pg_visible_in_snapshot(g.xid, x.snap) limit 1) l
            on g.fn is not null),
    log as (
        insert into deferred.__deferred_log (job_id, attempt, outcome, final, error, started_at,
                                             worker, receipt)
        select h.id, case when h.receipt is null then 0 else h.attempt end, 'cancelled', true,
               format('queue cleared by %s', deferred.__actor()), h.started_at, h.worker, h.receipt
        from held h)
    select (select count(*) from gone), count(*) = $3
        or count(*) > (select count(*) from gone) into cleared, more from seen;
end
$$;
comment on function deferred.__message_clear_some is 'cancels some jobs of a queue up to an id';
