-- run_glance: is there any job at all that is ready, claimed or due, and has a schedule a tick?
-- Mostly there is none, and the other questions of run_probe.sql, which take the server three times
-- as long to plan, need not be asked. Where a long snapshot keeps dead rows from being removed,
-- they are not walked over: 100,000 take some 50 ms.
-- params: none
-- returns: version int4, oldest int4, any bool?, tick bool
-- Rows: one row. Column any: there is a job; NULL: not looked, because too many rows are dead.
--   Column tick: a tick is due, or there are notes of ended jobs or of flows to be retried.
-- Locks: none. Indexes: __deferred_hot_ready, __deferred_hot_limited, __deferred_hot_concurrency,
--   __deferred_hot_delayed, __deferred_flow_retry_wanted.
select s.version, s.oldest,
       case when pg_stat_get_dead_tuples('deferred.__deferred_hot'::regclass) <= 100000 then
           exists (select from deferred.__deferred_hot h
                   where deferred.__in_lane(h.due_at, h.limited, h.fn))
           or exists (select from deferred.__deferred_hot h
                      where h.due_at is null and h.limited and h.concurrency_key is null)
           or exists (select from deferred.__deferred_hot h
                      where h.due_at is null and h.concurrency_key is not null)
           or exists (select from deferred.__deferred_hot h
                      where h.due_at <= now() and h.fn is not null)
       end as any,
       s.next_tick <= now()
       or (case when pg_stat_get_dead_tuples('deferred.__deferred_hot'::regclass) > 100000 then true
                else exists (select from deferred.__deferred_hot h
                             where h.due_at = 'infinity' and h.fn is not null) end
           and coalesce(deferred.__settle_due() <= now(), false))
       or exists (select from deferred.__deferred_flow_retry r
                  where r.ended_at is null and r.not_before <= now()) as tick
from (select max(x.version) as version, max(x.oldest) as oldest, min(x.next_tick) as next_tick
      from deferred.__deferred_state x) s
