-- job_promote: delayed jobs that are due become ready, at the tail of their lane.
-- params: jobs_max int4, from timestamptz
-- returns: promoted int8
-- $1   jobs at most.
-- $2   only those due from then on. Rows that died before it stay for as long as a snapshot needs
--   them. The walk skips them (lib/engine/step/delayed.c).
-- Locks: the rows, those locked by others are left to them. Index: __deferred_hot_delayed.
with due as materialized (
    select h.id from deferred.__deferred_hot h
    where h.due_at <= now() and h.due_at >= $2::timestamptz
      and h.fn is not null
    order by h.due_at limit $1::int4 for update skip locked),
ready as (
    update deferred.__deferred_hot h
    set due_at = null, visible_at = h.due_at, xid = pg_current_xact_id()
    from due where h.id = any (array[due.id]) and h.due_at is not null
    returning 1)
select count(*) as promoted from ready
