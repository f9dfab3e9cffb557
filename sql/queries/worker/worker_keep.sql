-- worker_keep: a service says that it lives, and asks what may have changed since it started.
-- params: worker int8, queues text[]
-- returns: registered bool, version int4, oldest int4
-- $2 NULL: all queues
-- Locks: its row. Index: primary key of __deferred_worker
with me as (
    update deferred.__deferred_worker w set seen_at = now(), queues = $2::text[]
    where w.id = $1::int8 and w.ended_at is null
    returning 1)
select exists (select from me) as registered,
       m.version, m.oldest
from (select max(x.version) as version, max(coalesce(x.oldest, x.version)) as oldest
      from deferred.__deferred_migration x) m
