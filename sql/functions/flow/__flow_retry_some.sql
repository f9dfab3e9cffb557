-- One step of a requested retry of a flow, in a transaction of a worker. The step blocks
-- deferred.__settle() in all other sessions. So an application must not run it in a transaction
-- that it leaves open.
-- The step waits for the lock for a moment: deferred.__settle() takes the lock step by step, and
-- lets a waiting session go first.
create or replace function deferred.__flow_retry_some() returns integer
language plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '200ms'
as $$
declare
    v_put_off constant interval := '500 milliseconds';
    r deferred.__deferred_flow_retry;
    s record;
begin
    select x.* into r from deferred.__deferred_flow_retry x
    where x.ended_at is null and x.not_before <= clock_timestamp() order by x.n
    limit 1 for update skip locked;
    if not found then
        return 0;
    end if;
    begin
        select x.* into s from deferred.__flow_retry_step(r.flow, r.after) x;
    exception when lock_not_available or object_in_use or deadlock_detected then
        update deferred.__deferred_flow_retry x set not_before = clock_timestamp() + v_put_off
        where x.n = r.n;
        return 0;
    end;
    update deferred.__deferred_flow_retry x
    set after = coalesce(s.next, x.after), ready = x.ready + s.ready,
        waiting = x.waiting + s.waiting, refused = x.refused + s.refused,
        why = coalesce(x.why, s.why),
        ended_at = case when s.next is null then clock_timestamp() end
    where x.n = r.n;
    if s.next is null then
        delete from deferred.__deferred_flow_retry x where x.flow = r.flow and x.n < r.n;
    end if;
    return 1;
end
$$;
comment on function deferred.__flow_retry_some() is
    'does a step of deferred.flow_retry(), if one is wanted; how many it did';
grant execute on function deferred.__flow_retry_some() to deferred_worker;
