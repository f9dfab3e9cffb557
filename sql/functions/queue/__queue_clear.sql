-- Cancels the hot jobs of a queue among the next ids. A next_id of NULL: that was all. If
-- `but_claimed` is true, claimed jobs are not cancelled.
create or replace function deferred.__queue_clear(queue text, from_id bigint, to_id bigint,
                                                  batch integer, but_claimed boolean default false,
    out cancelled bigint, out next_id bigint)
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    v_workers bigint[];
begin
    with seen as materialized (
        select h.id, h.queue from deferred.__deferred_hot h where h.id between $2 and $3
        order by h.id limit batch),
    gone as (
        delete from deferred.__deferred_hot h using seen s where h.id = s.id and s.queue = $1
          and not (but_claimed and deferred.__is_claimed(h))
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
    select (select count(*) from gone), (select max(s.id) + 1 from seen s having count(*) = batch),
           array(select distinct h.worker from held h where h.worker is not null)
    into cancelled, next_id, v_workers;
    perform pg_notify('deferred', '!' || w) from unnest(v_workers) w;
end
$$;
comment on function deferred.__queue_clear is
    'part of "deferred queue clear" and deferred.__act_clear(): cancels some jobs of a queue';
grant execute on function deferred.__queue_clear to deferred_worker;
