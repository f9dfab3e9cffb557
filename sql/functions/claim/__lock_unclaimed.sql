-- Locks the row of a job, so that no claim takes it from now on. The lane is not left locked,
-- because the transaction of the caller may stay open.
--
-- A claim does not lock the jobs that it takes. One that is under way may have read the row before
-- it was locked here, and its lease is not visible yet. So this function waits for that claim, with
-- deferred.__lane_await(). The next statement then sees the lease. In a transaction with an older
-- snapshot (repeatable read) waiting for what a claim has changed since fails with 40001.
--
-- p_share: others may do the same at once. No claim takes the job from any of them.
create or replace function deferred.__lock_unclaimed(p_id bigint, p_share boolean default false)
returns boolean
language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    h deferred.__deferred_hot;
begin
    if p_share then
        select * into h from deferred.__deferred_hot x where x.id = p_id for share;
    else
        select * into h from deferred.__deferred_hot x where x.id = p_id for update;
    end if;
    if not found then
        return null;
    end if;
    if h.fn is not null and not h.limited and h.due_at is null then
        perform deferred.__lane_await(h.queue, h.priority);
    end if;
    return (select not deferred.__is_claimed(x) from deferred.__deferred_hot x where x.id = p_id);
end
$$;
comment on function deferred.__lock_unclaimed is
    'locks the row of a job; true: nobody holds the job; NULL: the job has ended';
